#pragma once

// Everything a user of the library needs.

#include "gspmd/api/annotate.h"
#include "gspmd/api/compile.h"
#include "gspmd/api/einsum.h"
#include "gspmd/api/executable.h"
#include "gspmd/api/fields.h"
#include "gspmd/api/grad.h"
#include "gspmd/api/math.h"
#include "gspmd/api/nn.h"
#include "gspmd/api/operand.h"
#include "gspmd/api/optim.h"
#include "gspmd/api/random.h"
#include "gspmd/api/shaping.h"
#include "gspmd/api/stats.h"
#include "gspmd/api/tensor.h"
#include "gspmd/api/trace.h"
#include "gspmd/api/tree.h"
#include "gspmd/api/visualize.h"
