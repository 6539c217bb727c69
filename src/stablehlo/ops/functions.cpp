#include "stablehlo/ops/functions.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "gspmd/ops/builders.h"

namespace gspmd::stablehlo {
namespace {

using namespace hlo;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Node* k(Node* like, double value) { return constant_like(like, value); }
Node* log(Node* x) { return unary(Opcode::log, x); }
Node* log1p(Node* x) { return unary(Opcode::log_plus_one, x); }
Node* exp(Node* x) { return unary(Opcode::exponential, x); }
Node* abs(Node* x) { return unary(Opcode::abs, x); }
Node* floor(Node* x) { return unary(Opcode::floor, x); }
Node* negate(Node* x) { return unary(Opcode::negate, x); }
Node* sqrt(Node* x) { return unary(Opcode::sqrt, x); }
Node* less(Node* a, Node* b) { return compare(a, b, Direction::lt); }
Node* equal(Node* a, Node* b) { return compare(a, b, Direction::eq); }
Node* both(Node* a, Node* b) { return binary(Opcode::and_, a, b); }

// Horner's scheme, the highest power first.
Node* polynomial(Node* x, std::span<const double> coefficients) {
  Node* sum = k(x, coefficients[0]);
  for (const double c : coefficients.subspan(1)) sum = add(multiply(sum, x), k(x, c));
  return sum;
}

// Chebyshev series with half of the last coefficient, the highest first (Cephes, chbevl).
Node* chebyshev(Node* x, std::span<const double> coefficients) {
  Node* b0 = k(x, 0);
  Node* b1 = k(x, 0);
  Node* b2 = k(x, 0);
  for (const double c : coefficients) {
    b2 = b1;
    b1 = b0;
    b0 = add(subtract(multiply(x, b1), b2), k(x, c));
  }
  return multiply(k(x, 0.5), subtract(b0, b2));
}

constexpr double kErfcNear[] = {7.853861353153693e-5,  -8.010193625184903e-4, 5.188327685732524e-3,
                                -2.685381193529856e-2, 1.128358514861418e-1,  -3.761262582423300e-1,
                                1.128379165726710};
constexpr double kErfcMiddle[] = {
    2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
    -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
    3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1};
constexpr double kErfcFar[] = {-1.047766399936249e1,  1.297719955372516e1, -7.495518717768503,
                               2.921019019210786,     -1.015265279202700,  4.218463358204948e-1,
                               -2.820767439740514e-1, 5.641895067754075e-1};

Node* erfc_f32(Node* x) {
  Node* const square = multiply(x, x);
  Node* const near = subtract(k(x, 1), multiply(x, polynomial(square, kErfcNear)));
  Node* const size = abs(x);
  Node* const inverse = divide(k(x, 1), square);
  Node* const tail =
      select(less(size, k(x, 2)), polynomial(inverse, kErfcMiddle), polynomial(inverse, kErfcFar));
  Node* y = multiply(divide(exp(negate(square)), size), tail);
  y = select(less(k(x, 88.72283905), square), k(x, 0), y);
  y = select(less(x, k(x, 0)), subtract(k(x, 2), y), y);
  return select(less(size, k(x, 1)), near, y);
}

// Cephes, ndtr.
constexpr double kErfcP[] = {
    2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
    4.86371970985681366614E1,   1.96520832956077098242E2,  5.26445194995477358631E2,
    9.34528527171957607540E2,   1.02755188689515710272E3,  5.57535335369399327526E2};
constexpr double kErfcQ[] = {1.0,
                             1.32281951154744992508E1,
                             8.67072140885989742329E1,
                             3.54937778887819891062E2,
                             9.75708501743205489753E2,
                             1.82390916687909736289E3,
                             2.24633760818710981792E3,
                             1.65666309194161350182E3,
                             5.57535340817727675546E2};
constexpr double kErfcR[] = {5.64189583547755073984E-1, 1.27536670759978104416E0,
                             5.01905042251180477414E0,  6.16021097993053585195E0,
                             7.40974269950448939160E0,  2.97886665372100240670E0};
constexpr double kErfcS[] = {1.0,
                             2.26052863220117276590E0,
                             9.39603524938001434673E0,
                             1.20489539808096656605E1,
                             1.70814450747565897222E1,
                             9.60896809063285878198E0,
                             3.36907645100081516050E0};

Node* erfc_f64(Node* x) {
  Node* const size = abs(x);
  Node* const near = subtract(k(x, 1), unary(Opcode::erf, x));
  Node* const z = exp(negate(multiply(x, x)));
  Node* const middle = divide(multiply(z, polynomial(size, kErfcP)), polynomial(size, kErfcQ));
  Node* const far = divide(multiply(z, polynomial(size, kErfcR)), polynomial(size, kErfcS));
  Node* y = select(less(size, k(x, 8)), middle, far);
  y = select(less(multiply(x, x), k(x, 745)), y, k(x, 0));
  y = select(less(x, k(x, 0)), subtract(k(x, 2), y), y);
  y = select(less(size, k(x, 1)), near, y);
  return select(compare(x, x, Direction::ne), x, y);
}

// Giles, "Approximating the erfinv function".
constexpr double kErfInvNear[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                  -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                  -0.00417768164,  0.246640727,    1.50140941};
constexpr double kErfInvFar[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                 -0.00367342844,  0.00573950773,  -0.0076224613,
                                 0.00943887047,   1.00167406,     2.83297682};
constexpr double kErfInvNear64[] = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,
    1.115787767802518096e-17,   -1.333171662854620906e-16,  2.0972767875968561637e-17,
    6.6376381343583238325e-15,  -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07,  -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352,   -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693,     1.6536545626831027356};
constexpr double kErfInvMiddle64[] = {
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617,   1.0052589676941592334,
    3.0838856104922207635};
constexpr double kErfInvFar64[] = {
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
    2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
    7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977,      4.8499064014085844221};

// Lanczos, g = 7.
constexpr double kLanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};
constexpr double kLanczosBase = 0.99999999999980993227684700473478;

struct Lanczos {
  Node* z;  // the argument, mirrored to be positive
  Node* t;  // z + 7.5
  Node* log_t;
  Node* sum;
  Node* derivative;  // minus that of the sum
  Node* is_mirrored;
};

Lanczos lanczos(Node* x) {
  Lanczos l{};
  l.is_mirrored = less(x, k(x, 0.5));
  l.z = select(l.is_mirrored, negate(x), subtract(x, k(x, 1)));
  l.sum = k(x, kLanczosBase);
  l.derivative = k(x, 0);
  for (size_t i = 0; i < std::size(kLanczos); ++i) {
    Node* const pole = add(l.z, k(x, static_cast<double>(i) + 1));
    l.sum = add(l.sum, divide(k(x, kLanczos[i]), pole));
    l.derivative = add(l.derivative, divide(k(x, kLanczos[i]), multiply(pole, pole)));
  }
  l.t = add(l.z, k(x, 7.5));
  l.log_t = add(k(x, std::log(7.5)), log1p(divide(l.z, k(x, 7.5))));
  return l;
}

// Cephes, i1e.
constexpr double kBesselNear[] = {
    9.38153738649577178388E-9,  -4.44505912879632808065E-8, 2.00329475355213526229E-7,
    -8.56872026469545474066E-7, 3.47025130813767847674E-6,  -1.32731636560394358279E-5,
    4.78156510755005422638E-5,  -1.61760815825896745588E-4, 5.12285956168575772895E-4,
    -1.51357245063125314899E-3, 4.15642294431288815669E-3,  -1.05640848946261981558E-2,
    2.47264490306265168283E-2,  -5.29459812080949914269E-2, 1.02643658689847095384E-1,
    -1.76416518357834055153E-1, 2.52587186443633654823E-1};
constexpr double kBesselFar[] = {-3.83538038596423702205E-9, -2.63146884688951950684E-8,
                                 -2.51223623787020892529E-7, -3.88256480887769039346E-6,
                                 -1.10588938762623716291E-4, -9.76109749136146840777E-3,
                                 7.78576235018280120474E-1};

// The power series, whose terms are all positive; beyond its reach Hankel's expansion.
Node* bessel_i1e_f64(Node* x) {
  constexpr int kTerms = 90;
  constexpr double kReach = 30;
  Node* const size = abs(x);
  Node* const half = multiply(size, k(x, 0.5));
  Node* const square = multiply(half, half);
  Node* series = k(x, 1);
  for (int i = kTerms; i >= 1; --i)
    series = add(divide(multiply(series, square), k(x, i * (i + 1.0))), k(x, 1));
  Node* const near = multiply(multiply(series, half), exp(negate(size)));
  Node* expansion = k(x, 1);
  for (int i = 20; i >= 1; --i) {
    const double factor = (4.0 - (2.0 * i - 1) * (2.0 * i - 1)) / (8.0 * i);
    expansion = subtract(k(x, 1), multiply(divide(k(x, factor), size), expansion));
  }
  Node* const far = divide(expansion, sqrt(multiply(k(x, 2 * std::numbers::pi), size)));
  return multiply(unary(Opcode::sign, x), select(less(size, k(x, kReach)), near, far));
}

DType unsigned_of(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    default:
      return DType::u64;
  }
}

Node* bits(Node* x, DType dtype) {
  return emit(x->parent(), Opcode::bitcast_convert, {x}, {}, Shape(dtype, x->dims()));
}

}  // namespace

Node* constant_like(Node* like, double value) {
  return splat(like->parent(), Shape(like->shape.dtype, like->dims()), value);
}

Node* erfc(Node* x) { return x->shape.dtype == DType::f64 ? erfc_f64(x) : erfc_f32(x); }

Node* erf_inv(Node* x) {
  Node* const w = negate(log1p(negate(multiply(x, x))));
  Node* p = nullptr;
  if (x->shape.dtype == DType::f64) {
    Node* const root = sqrt(w);
    p = select(less(w, k(x, 16)), polynomial(subtract(root, k(x, 3.25)), kErfInvMiddle64),
               polynomial(subtract(root, k(x, 5)), kErfInvFar64));
    p = select(less(w, k(x, 6.25)), polynomial(subtract(w, k(x, 3.125)), kErfInvNear64), p);
  } else {
    p = select(less(w, k(x, 5)), polynomial(subtract(w, k(x, 2.5)), kErfInvNear),
               polynomial(subtract(sqrt(w), k(x, 3)), kErfInvFar));
  }
  return select(equal(abs(x), k(x, 1)), multiply(x, k(x, kInfinity)), multiply(p, x));
}

Node* lgamma(Node* x) {
  const Lanczos l = lanczos(x);
  Node* const half = add(l.z, k(x, 0.5));
  Node* const direct = add(add(k(x, 0.5 * std::log(2 * std::numbers::pi)),
                               multiply(subtract(half, divide(l.t, l.log_t)), l.log_t)),
                           log(l.sum));
  Node* const size = abs(x);
  Node* fraction = subtract(size, floor(size));
  fraction = select(less(k(x, 0.5), fraction), subtract(k(x, 1), fraction), fraction);
  Node* const sine = log(unary(Opcode::sine, multiply(k(x, std::numbers::pi), fraction)));
  Node* const mirrored =
      select(unary(Opcode::is_finite, sine),
             subtract(subtract(k(x, std::log(std::numbers::pi)), sine), direct), negate(sine));
  Node* const result = select(l.is_mirrored, mirrored, direct);
  return select(equal(size, k(x, kInfinity)), k(x, kInfinity), result);
}

Node* digamma(Node* x) {
  const Lanczos l = lanczos(x);
  Node* const direct =
      subtract(subtract(l.log_t, divide(l.derivative, l.sum)), divide(k(x, 7), l.t));
  Node* const near = add(x, abs(floor(add(x, k(x, 0.5)))));
  Node* const angle = multiply(k(x, std::numbers::pi), near);
  Node* const mirrored =
      subtract(direct, divide(multiply(k(x, std::numbers::pi), unary(Opcode::cosine, angle)),
                              unary(Opcode::sine, angle)));
  Node* const result = select(l.is_mirrored, mirrored, direct);
  Node* const is_pole = both(compare(x, k(x, 0), Direction::le), equal(x, floor(x)));
  return select(is_pole, k(x, std::numeric_limits<double>::quiet_NaN()), result);
}

// Euler and Maclaurin's sum: ten terms, then the integral and its corrections.
Node* zeta(Node* x, Node* q) {
  constexpr int kTerms = 10;
  constexpr double kBernoulli[] = {12,
                                   -720,
                                   30240,
                                   -1209600,
                                   47900160,
                                   -1307674368000.0 / 691,
                                   74724249600,
                                   -10670622842880000.0 / 3617,
                                   5109094217170944000.0 / 43867,
                                   -802857662698291200000.0 / 174611,
                                   14101100039391805440000.0 / 77683,
                                   -1693824136731743669452800000.0 / 236364091};
  Node* sum = k(x, 0);
  Node* a = q;
  for (int i = 0; i < kTerms; ++i) {
    sum = add(sum, binary(Opcode::power, a, negate(x)));
    a = add(a, k(x, 1));
  }
  Node* const power = binary(Opcode::power, a, negate(x));
  sum = add(sum, divide(multiply(power, a), subtract(x, k(x, 1))));
  sum = add(sum, multiply(power, k(x, 0.5)));
  Node* factor = k(x, 1);
  Node* term = power;
  for (int i = 0; i < 12; ++i) {
    factor = multiply(factor, add(x, k(x, 2 * i)));
    term = divide(term, a);
    sum = add(sum, divide(multiply(term, factor), k(x, kBernoulli[i])));
    factor = multiply(factor, add(x, k(x, 2 * i + 1)));
    term = divide(term, a);
  }
  Node* const nan = k(x, std::numeric_limits<double>::quiet_NaN());
  Node* const is_even = equal(binary(Opcode::remainder, x, k(x, 2)), k(x, 0));
  Node* const is_whole = equal(q, floor(q));
  Node* result = select(both(less(q, k(x, 0)), unary(Opcode::not_, equal(x, floor(x)))), nan, sum);
  Node* const pole = select(is_even, k(x, kInfinity), nan);
  result = select(both(compare(q, k(x, 0), Direction::le), is_whole), pole, result);
  result = select(less(x, k(x, 1)), nan, result);
  return select(equal(x, k(x, 1)), k(x, kInfinity), result);
}

Node* polygamma(Node* n, Node* x) {
  Node* const next = add(n, k(n, 1));
  Node* const is_odd = equal(binary(Opcode::remainder, n, k(n, 2)), k(n, 1));
  Node* const sign = select(is_odd, k(n, 1), k(n, -1));
  Node* const value = multiply(multiply(sign, exp(lgamma(next))), zeta(next, x));
  Node* const is_wrong = binary(Opcode::or_, less(n, k(n, 0)), compare(n, floor(n), Direction::ne));
  Node* const result = select(equal(n, k(n, 0)), digamma(x), value);
  return select(is_wrong, k(n, std::numeric_limits<double>::quiet_NaN()), result);
}

Node* bessel_i1e(Node* x) {
  if (x->shape.dtype == DType::f64) return bessel_i1e_f64(x);
  Node* const size = abs(x);
  Node* const near =
      multiply(chebyshev(subtract(divide(size, k(x, 2)), k(x, 2)), kBesselNear), size);
  Node* const far =
      divide(chebyshev(subtract(divide(k(x, 32), size), k(x, 2)), kBesselFar), sqrt(size));
  Node* const y = select(compare(size, k(x, 8), Direction::le), near, far);
  return multiply(unary(Opcode::sign, x), y);
}

Node* next_after(Node* x, Node* y) {
  const DType dtype = x->shape.dtype;
  const DType integer = unsigned_of(dtype);
  const int width = static_cast<int>(8 * dtype_size(dtype));
  Node* const a = bits(x, integer);
  Node* const b = bits(y, integer);
  const auto whole = [&](uint64_t value) {
    Array scalar(integer, {});
    std::copy_n(reinterpret_cast<const std::byte*>(&value),
                static_cast<size_t>(dtype_size(integer)), scalar.bytes().data());
    return broadcast(constant(x->parent(), scalar), x->dims(), {});
  };
  Node* const sign = whole(uint64_t{1} << (width - 1));
  Node* const size_mask = whole((uint64_t{1} << (width - 1)) - 1);
  Node* const a_size = both(a, size_mask);
  Node* const b_size = both(b, size_mask);
  Node* const differs = compare(both(a, sign), both(b, sign), Direction::ne);
  Node* const shrinks = binary(Opcode::or_, compare(a_size, b_size, Direction::gt), differs);
  Node* const step = select(shrinks, whole(~uint64_t{0} >> (64 - width)), whole(1));
  Node* const smallest = binary(Opcode::or_, both(b, sign), whole(1));
  Node* result = select(equal(a_size, whole(0)), smallest, add(a, step));
  result = bits(result, dtype);
  result = select(equal(x, y), y, result);
  Node* const is_nan =
      binary(Opcode::or_, compare(x, x, Direction::ne), compare(y, y, Direction::ne));
  return select(is_nan, add(x, y), result);
}

}  // namespace gspmd::stablehlo
