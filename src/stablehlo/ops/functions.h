#pragma once

// Special functions as elementwise HLO, for f32 and f64.

#include "gspmd/ir/module.h"

namespace gspmd::stablehlo {

Node* erfc(Node* x);
Node* erf_inv(Node* x);
Node* lgamma(Node* x);
Node* digamma(Node* x);
Node* zeta(Node* x, Node* q);  // Hurwitz
Node* polygamma(Node* n, Node* x);
Node* bessel_i1e(Node* x);
// --- Of any number type
Node* next_after(Node* x, Node* y);

// A scalar as an array of the shape of `like`.
Node* constant_like(Node* like, double value);

}  // namespace gspmd::stablehlo
