// The same formulas as src/report/special.c, estimate.c and rows.c, for whatever part of the recording is chosen; a test holds both together.
const HALF_LOG_2PI = 0.91893853320467274178;

function stirlingError(z) { // lgamma(z + 1) - (z + 1/2) ln z + z - ln(2 pi) / 2
	let below = 0; // down from where the series is exact: e(z) = e(z + 1) + (z + 1/2) ln(1 + 1/z) - 1
	while (z < 15) {
		below += (z + 0.5) * Math.log1p(1 / z) - 1;
		z++;
	}
	const z2 = z * z;
	return below + (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / z2) / z2) / z2) / z2) / z;
}

function deviance(x, m) { // x ln(x / m) + m - x, without cancellation
	if (Math.abs(x - m) >= 0.1 * (x + m))
		return x * Math.log(x / m) + m - x;
	const v = (x - m) / (x + m);
	let sum = (x - m) * v, term = 2 * x * v;
	for (let j = 1; j < 1000; j++) {
		term *= v * v;
		const next = sum + term / (2 * j + 1);
		if (next === sum)
			break;
		sum = next;
	}
	return sum;
}

function betaPrefactor(x, y, a, b) {
	const n = a + b;
	const exponent = stirlingError(n) - stirlingError(a) - stirlingError(b) - deviance(a, n * x) - deviance(b, n * y);
	return Math.sqrt(n / (2 * Math.PI * a * b)) * Math.exp(exponent);
}

function betaFraction(x, a, b) { // DLMF 8.17.22, modified Lentz
	const tiny = 1e-300, kept = v => Math.abs(v) < tiny ? tiny : v;
	let c = 1, d = 1 / kept(1 - (a + b) * x / (a + 1)), f = d;
	for (let m = 1; m < 1000000; m++) {
		const even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		const odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		let step = 1;
		for (const coefficient of [even, odd]) {
			d = 1 / kept(1 + coefficient * d);
			c = kept(1 + coefficient / c);
			step = c * d;
			f *= step;
		}
		if (Math.abs(step - 1) < 3e-16)
			break;
	}
	return f;
}

function betaTails(x, a, b) {
	if (!(x > 0))
		return { lower: 0, upper: 1, density: 0 };
	if (x >= 1)
		return { lower: 1, upper: 0, density: 0 };
	const y = 1 - x, prefactor = betaPrefactor(x, y, a, b), density = prefactor * a * b / ((a + b) * x * y);
	if (x <= (a + 1) / (a + b + 2)) {
		const lower = prefactor * b / (a + b) * betaFraction(x, a, b);
		return { lower, upper: 1 - lower, density };
	}
	const upper = prefactor * a / (a + b) * betaFraction(y, b, a);
	return { lower: 1 - upper, upper, density };
}

// x with lower tail p, upper tail q, by the smaller tail: Newton's steps inside a bracket that halves in the logarithm.
function betaQuantile(p, q, a, b) {
	let lo = 0, hi = 1, x = a / (a + b);
	for (let i = 0; i < 2000; i++) {
		const t = betaTails(x, a, b), error = p < q ? t.lower - p : q - t.upper;
		if (error === 0)
			return x;
		if (error > 0)
			hi = x;
		else
			lo = x;
		let next = t.density > 0 ? x - error / t.density : NaN;
		const inside = next > lo && next < hi;
		if (!inside)
			next = lo === 0 ? (hi > 1e-300 ? hi * 1e-3 : 0) : hi / lo > 4 ? Math.sqrt(lo) * Math.sqrt(hi) : lo + (hi - lo) / 2;
		if ((inside && Math.abs(next - x) <= 1e-13 * x) || hi - lo <= 4e-16 * hi)
			return next;
		x = next;
	}
	return x;
}

function clopperPearson(k, n, confidence) {
	if (!(n > 0))
		return [0, 1];
	const half = (1 - confidence) / 2;
	let lo = 0, hi = 1;
	if (k <= 0)
		hi = -Math.expm1(Math.log(half) / n);
	else if (k < n)
		hi = betaQuantile(1 - half, half, k + 1, n - k);
	if (k >= n)
		lo = Math.pow(half, 1 / n);
	else if (k > 0)
		lo = betaQuantile(half, 1 - half, k, n - k + 1);
	return [lo, hi];
}

function blockDeff(n, k) { // ratio estimator, linearised; von Neumann
	const blocks = n.length, sumN = n.reduce((a, b) => a + b, 0), sumK = k.reduce((a, b) => a + b, 0), p = sumN > 0 ? sumK / sumN : 0;
	if (!(sumK > 0) || sumK >= sumN || blocks < 3)
		return { deff: 1, z: 0 };
	let squares = 0, differences = 0, previous = 0;
	for (let j = 0; j < blocks; j++) {
		const e = k[j] - p * n[j];
		squares += e * e;
		if (j > 0)
			differences += (e - previous) * (e - previous);
		previous = e;
	}
	const variance = blocks / (blocks - 1) * squares / (sumN * sumN), ratio = squares > 0 ? differences / squares : 2;
	return { deff: variance / (p * (1 - p) / sumN), z: (2 - ratio) / (2 * Math.sqrt((blocks - 2) / (blocks * blocks - 1))) };
}

const FEW_VISITS = 20, LEAST_FOR_WORKLOAD = 100, TREND_Z = 1.645;

// facts.tRatio[b]: z / t of b blocks at the confidence, as C computed it.
function effectiveN(facts, n, deff, blocks) {
	const ratio = blocks > 1 ? facts.tRatio[blocks] : 1;
	return Math.min(n, n / Math.max(deff, 1) * ratio * ratio);
}

function lossBounds(facts, k, n, lost, deff, blocks) {
	const all = n + lost;
	if (!(all > 0))
		return [0, 1];
	const scale = effectiveN(facts, all, deff, blocks) / all;
	return [clopperPearson(k * scale, all * scale, facts.confidence)[0], clopperPearson((k + lost) * scale, all * scale, facts.confidence)[1]];
}

// of: what data.js counted inside; the whole of the selection is of.whole.
function estimate(facts, of) {
	const whole = of.whole, n = whole.n, k = of.weight * whole.scale, m = {
		k, n, samples: of.samples, share: n > 0 ? k / n : 0, deff: 1, blocks: 0, few: false, trend: false, runOnly: false,
		visits: of.visits, visitsOutside: of.visitsOutside,
	};
	m.run = clopperPearson(k, n, facts.confidence);
	if (n < LEAST_FOR_WORKLOAD || facts.runOnly) {
		m.runOnly = true;
		m.workload = m.run;
	} else {
		let ns = whole.blocks.map(v => v * whole.scale), ks = of.blocks.map(v => v * whole.scale), r = blockDeff(ns, ks);
		m.blocks = ns.length;
		if (r.z > TREND_Z) {
			const pairs = v => v.filter((x, j) => j % 2 === 0).map((x, j) => x + v[2 * j + 1]);
			ns = pairs(ns);
			ks = pairs(ks);
			r = blockDeff(ns, ks);
			m.blocks = ns.length;
			m.trend = r.z > TREND_Z;
		}
		m.deff = Math.max(1, r.deff);
		m.few = m.visits < FEW_VISITS || m.visitsOutside < FEW_VISITS;
		const effective = effectiveN(facts, n, m.deff, m.blocks);
		m.workload = clopperPearson(k * effective / n, effective, facts.confidence);
	}
	m.supported = !m.few && !m.trend && !m.runOnly;
	m.worst = whole.missing > 0 ? lossBounds(facts, k, n, whole.missing, m.deff, m.blocks) : m.workload;
	const cut = of.cutElsewhere * whole.scale;
	if (cut > 0)
		m.worst = [m.worst[0], lossBounds(facts, k + cut, n, whole.missing, m.deff, m.blocks)[1]];
	// As account.c counts it: of the whole, silence counts from 1% on; of a part it is not known.
	const lossy = whole.isWhole ? facts.lossy : whole.missing > 0 && whole.missing >= 0.001 * (n + whole.missing);
	m.shownIsRun = m.few || m.runOnly;
	m.shown = m.shownIsRun ? lossBounds(facts, k, n, lossy ? whole.missing : 0, 1, 0) : lossy ? m.worst : m.workload;
	m.lossy = lossy;
	return m;
}
