// Special functions: incomplete beta and gamma with their inverses, normal and Student's t.
//
// No library below us has these in C under a licence and size we want. Prefactors by Loader (2000), "Fast and accurate computation of
// binomial probabilities": deviance plus Stirling error keeps the relative error near 1e-13 at n = 1e7, where differences of lgamma lose 8 digits.
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "report/estimate.h"

static const double HALF_LOG_2PI = 0.91893853320467274178;
static const double TWO_PI = 6.28318530717958647693;

// lgamma(z + 1) - (z + 1/2) ln z + z - ln(2 pi) / 2
static double stirling_error(double z)
{
	if (z < 15) {
		int sign; // lgamma itself writes a global
		return lgamma_r(z + 1, &sign) - (z + 0.5) * log(z) + z - HALF_LOG_2PI;
	}
	double z2 = z * z;
	return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680 - (1.0 / 1188) / z2) / z2) / z2) / z2) / z;
}

// x ln(x / m) + m - x, without cancellation where x is near m.
static double deviance(double x, double m)
{
	if (fabs(x - m) >= 0.1 * (x + m))
		return x * log(x / m) + m - x;
	double v = (x - m) / (x + m), sum = (x - m) * v, term = 2 * x * v;
	for (int j = 1; j < 1000; j++) {
		term *= v * v;
		double next = sum + term / (2 * j + 1);
		if (next == sum)
			break;
		sum = next;
	}
	return sum;
}

// x^a (1-x)^b gamma(a+b+1) / (gamma(a+1) gamma(b+1)); y = 1 - x.
static double beta_prefactor(double x, double y, double a, double b)
{
	double n = a + b;
	double exponent = stirling_error(n) - stirling_error(a) - stirling_error(b) - deviance(a, n * x) - deviance(b, n * y);
	return sqrt(n / (TWO_PI * a * b)) * exp(exponent);
}

// The even part of the continued fraction of DLMF 8.17.22, which takes half the steps (Didonato and Morris, Algorithm 708, ACM TOMS 18, eq. 9), by
// the recurrence of its numerators and denominators: a division a step, where Lentz's method takes five. They are scaled at every look at their ratio.
static double beta_fraction(double x, double a, double b)
{
	enum { STEPS_A_LOOK = 4 };
	double least = a - (a + b) * x + 1, inverse = 1 / (a + 1), f = a * least * inverse;
	double above = f, below = 1, above_last = 1, below_last = 0;
	for (int m = 1; m < 1000000; m++) {
		double part = m * (b - m) * x * inverse, numerator = (a + m - 1) * (a + b + m - 1) * x * inverse * part;
		inverse = 1 / (a + 2 * m + 1);
		double denominator = m + part + (a + m) * (least + m * (2 - x)) * inverse;
		double above_next = denominator * above + numerator * above_last, below_next = denominator * below + numerator * below_last;
		above_last = above;
		below_last = below;
		above = above_next;
		below = below_next;
		if (m % STEPS_A_LOOK != 0)
			continue;
		double scale = 1 / below, now = above * scale;
		bool converged = fabs(now - f) <= 1e-15 * fabs(now);
		f = now;
		if (converged || !isfinite(now))
			break;
		above = now;
		below = 1;
		above_last *= scale;
		below_last *= scale;
	}
	return a / f;
}

// Both tails at x, the smaller one with full relative accuracy, the density and its logarithmic derivative.
struct tails { double lower, upper, density, bend; };

static struct tails beta_tails(double x, double a, double b)
{
	if (!(x > 0))
		return (struct tails){ 0, 1, 0, 0 };
	if (x >= 1)
		return (struct tails){ 1, 0, 0, 0 };
	double y = 1 - x, prefactor = beta_prefactor(x, y, a, b);
	double density = prefactor * a * b / ((a + b) * x * y), bend = (a - 1) / x - (b - 1) / y;
	if (x <= (a + 1) / (a + b + 2)) {
		double lower = prefactor * b / (a + b) * beta_fraction(x, a, b);
		return (struct tails){ lower, 1 - lower, density, bend };
	}
	double upper = prefactor * a / (a + b) * beta_fraction(y, b, a);
	return (struct tails){ 1 - upper, upper, density, bend };
}

double beta_cdf(double x, double a, double b)
{
	return beta_tails(x, a, b).lower;
}

typedef struct tails tails_fn(double x, double a, double b);

// Halley's step towards a zero error: cubic, with the density's derivative at hand.
static double halley(double x, double error, const struct tails *t)
{
	double newton = error / t->density, damp = 1 - newton * t->bend / 2;
	return x - newton / fmax(0.5, fmin(2, damp));
}

// x with lower tail p (upper tail q = 1 - p), by the smaller tail, inside a bracket. The bracket halves in the logarithm
// while it spans magnitudes: a lower limit can be 1e-100. `hi` may be infinite.
static double invert(tails_fn *tails, double p, double q, double a, double b, double start, double hi)
{
	double lo = 0, x = start;
	for (int i = 0; i < 2000; i++) {
		struct tails t = tails(x, a, b);
		double error = p < q ? t.lower - p : q - t.upper;
		if (error == 0)
			return x;
		if (error > 0)
			hi = x;
		else
			lo = x;
		double next = t.density > 0 ? halley(x, error, &t) : NAN;
		bool inside = next > lo && next < hi;
		if (!inside) {
			if (isinf(hi))
				next = 2 * x;
			else if (lo == 0)
				next = hi > 1e-300 ? hi * 1e-3 : 0;
			else
				next = hi / lo > 4 ? sqrt(lo) * sqrt(hi) : lo + (hi - lo) / 2;
		}
		// A step this small leaves an error of its third power in standard deviations, of which x has at most some thousands.
		if ((inside && fabs(next - x) <= 1e-9 * fabs(x)) || (!isinf(hi) && hi - lo <= 4e-16 * hi))
			return next;
		x = next;
	}
	return x;
}

// Abramowitz & Stegun 26.5.22: within about a thousandth of a standard deviation where a and b are not small.
static double beta_start(double p, double a, double b)
{
	if (a < 1 || b < 1)
		return a / (a + b);
	double y = -normal_quantile(p), lambda = (y * y - 3) / 6, u = 1 / (2 * a - 1), v = 1 / (2 * b - 1), h = 2 / (u + v);
	if (!(h + lambda > 0))
		return a / (a + b);
	double w = y * sqrt(h + lambda) / h - (v - u) * (lambda + 5.0 / 6 - 2 / (3 * h)), x = a / (a + b * exp(2 * w));
	return x > 0 && x < 1 ? x : a / (a + b);
}

double beta_quantile(double p, double a, double b)
{
	if (!(p > 0))
		return 0;
	if (p >= 1)
		return 1;
	return invert(beta_tails, p, 1 - p, a, b, beta_start(p, a, b), 1);
}

double normal_cdf(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

// Wichura 1988, algorithm AS 241, PPND16: about 1e-16.
double normal_quantile(double p)
{
	static const double near[2][8] = {
		{ 3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
		  45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727 },
		{ 1, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
		  21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610 } };
	static const double middle[2][8] = {
		{ 1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
		  1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4 },
		{ 1, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
		  0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9 } };
	static const double far[2][8] = {
		{ 6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
		  0.0265321895265761230930, 0.00124266094738807843860, 2.71155556874348757815e-5, 2.01033439929228813265e-7 },
		{ 1, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
		  7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15 } };
	if (!(p > 0))
		return -INFINITY;
	if (p >= 1)
		return INFINITY;
	double q = p - 0.5, r, factor;
	const double (*table)[8];
	if (fabs(q) <= 0.425) {
		r = 0.180625 - q * q;
		table = near;
		factor = q;
	} else {
		r = sqrt(-log(q < 0 ? p : 1 - p));
		table = r <= 5 ? middle : far;
		r -= r <= 5 ? 1.6 : 5;
		factor = q < 0 ? -1 : 1;
	}
	double above = 0, below = 0;
	for (int i = 7; i >= 0; i--) {
		above = above * r + table[0][i];
		below = below * r + table[1][i];
	}
	return factor * above / below;
}

double student_cdf(double t, double df)
{
	double tail = 0.5 * beta_cdf(df / (df + t * t), df / 2, 0.5);
	if (t * t < df) // there the other end of the beta distribution keeps the digits
		tail = 0.5 - 0.5 * beta_cdf(t * t / (df + t * t), 0.5, df / 2);
	return t < 0 ? tail : 1 - tail;
}

double student_quantile(double p, double df)
{
	if (p == 0.5)
		return 0;
	double tail = p < 0.5 ? p : 1 - p, t;
	if (tail < 0.25) {
		double x = beta_quantile(2 * tail, df / 2, 0.5);
		t = sqrt(df * (1 - x) / x);
	} else {
		double y = beta_quantile(1 - 2 * tail, 0.5, df / 2);
		t = sqrt(df * y / (1 - y));
	}
	return p < 0.5 ? -t : t;
}

// Regularized incomplete gamma, shape a; `unused` keeps the shape of tails_fn.
static struct tails gamma_tails(double x, double a, double unused)
{
	(void)unused;
	if (!(x > 0))
		return (struct tails){ 0, 1, 0, 0 };
	double prefactor = exp(-stirling_error(a) - deviance(a, x)) / sqrt(TWO_PI * a); // x^a e^-x / gamma(a + 1)
	double density = prefactor * a / x, bend = (a - 1) / x - 1;
	if (x < a + 1) { // series, DLMF 8.7.1
		double sum = 1, term = 1;
		for (double n = a + 1; term > sum * 1e-17; n++) {
			term *= x / n;
			sum += term;
		}
		double lower = prefactor * sum;
		return (struct tails){ lower, 1 - lower, density, bend };
	}
	const double tiny = 1e-300; // continued fraction, DLMF 8.9.2, by Lentz
	double b = x + 1 - a, c = 1 / tiny, d = 1 / b, f = d;
	for (int i = 1; i < 1000000; i++) {
		double coefficient = -i * (i - a);
		b += 2;
		d = coefficient * d + b;
		c = b + coefficient / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		f *= c * d;
		if (fabs(c * d - 1) < 3e-16)
			break;
	}
	double upper = prefactor * a * f;
	return (struct tails){ 1 - upper, upper, density, bend };
}

double chi2_upper(double x, double df)
{
	return gamma_tails(x / 2, df / 2, 0).upper;
}

double chi2_quantile(double p, double df)
{
	if (!(p > 0))
		return 0;
	if (p >= 1)
		return INFINITY;
	return 2 * invert(gamma_tails, p, 1 - p, df / 2, 0, df / 2, INFINITY);
}
