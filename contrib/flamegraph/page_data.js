// What the file holds, unpacked; and counting: which samples of a selection are inside a set of nodes.
const KIND_USER = 0, KIND_KERNEL = 1, KIND_JIT = 2, KIND_UNKNOWN = 3, KIND_END = 4, KIND_TOP = 5, BLOCKS = 20, STEPS = 50;

async function unpack() {
	const header = JSON.parse(document.getElementById("data").textContent);
	const text = atob(document.getElementById("columns").textContent), packed = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++)
		packed[i] = text.charCodeAt(i);
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	return readColumns(header, new Uint8Array(await new Response(stream).arrayBuffer()));
}

function readColumns(header, bytes) {
	let at = 0;
	function number() {
		let value = 0, scale = 1, byte;
		do {
			byte = bytes[at++];
			value += (byte & 127) * scale;
			scale *= 128;
		} while (byte > 127);
		return value;
	}
	const nodes = number(), samples = header.samples;
	const d = {
		header, nodes, frame: new Uint32Array(nodes), parent: new Int32Array(nodes), depth: new Uint16Array(nodes), end: new Uint32Array(nodes),
		guessed: new Uint8Array(nodes), first: new Int32Array(nodes).fill(-1), next: new Int32Array(nodes).fill(-1), cut: new Uint8Array(nodes),
		node: new Uint32Array(samples), bin: new Uint16Array(samples), threadStart: [], weight: null,
		names: header.frames.map(f => f[0]), image: header.frames.map(f => f[1]), kind: header.frames.map(f => f[2] & 7),
		inlined: header.frames.map(f => (f[2] & 8) !== 0), row: header.frames.map(f => f[3]), images: header.images, threads: header.threads,
	};
	readNodes(d, number);
	const threads = number();
	let i = 0;
	for (let t = 0; t < threads; t++) {
		d.threadStart.push(i);
		let bin = 0;
		for (let left = number(); left > 0; left--, i++) {
			bin += number();
			d.bin[i] = bin;
			d.node[i] = number();
		}
	}
	d.threadStart.push(i);
	if (header.weights)
		d.weight = new Float64Array(bytes.slice(at, at + 8 * samples).buffer);
	return d;
}

function readNodes(d, number) { // in preorder: below a node are those up to its end
	const path = [0], last = new Int32Array(d.nodes).fill(-1);
	d.frame[0] = 0xffffffff;
	d.parent[0] = -1;
	for (let i = 1; i < d.nodes; i++) {
		for (let up = number(); up > 0; up--)
			d.end[path.pop()] = i;
		const frame = number(), parent = path[path.length - 1];
		d.frame[i] = frame >>> 1;
		d.guessed[i] = frame & 1;
		d.parent[i] = parent;
		d.depth[i] = path.length;
		if (last[parent] < 0)
			d.first[parent] = i;
		else
			d.next[last[parent]] = i;
		last[parent] = i;
		d.cut[i] = d.cut[parent] || (d.kind[d.frame[i]] === KIND_END && d.names[d.frame[i]] !== "[unknown]") ? 1 : 0;
		path.push(i);
	}
	for (const node of path)
		d.end[node] = d.nodes;
}

// A selection: threads (null: all) and time in fiftieths, [from, to). What is in it, summed up the tree.
function select(d, threads, from, to) {
	const facts = d.header.facts, bins = d.header.bins, s = {
		d, threads, from, to, isWhole: threads === null && from === 0 && to === STEPS,
		own: new Float64Array(d.nodes), total: new Float64Array(d.nodes), blocks: new Array(BLOCKS).fill(0), samples: 0, weight: 0, squares: 0, cut: 0,
		threadCount: 0, ranges: [],
	};
	const low = bins * from / STEPS, high = bins * to / STEPS, length = (high - low) / BLOCKS;
	s.blockOf = bin => length > 0 ? Math.min(BLOCKS - 1, Math.floor((bin - low) / length)) : 0;
	for (let t = 0; t + 1 < d.threadStart.length; t++) {
		if (threads !== null && !threads.has(t))
			continue;
		let i = d.threadStart[t], end = d.threadStart[t + 1];
		if (bins > 1) {
			while (i < end && d.bin[i] < low)
				i++;
			while (end > i && d.bin[end - 1] >= high)
				end--;
		}
		if (i === end)
			continue;
		s.ranges.push([i, end]);
		s.threadCount++;
		for (; i < end; i++) {
			const w = d.weight ? d.weight[i] : 1;
			s.own[d.node[i]] += w;
			s.blocks[s.blockOf(d.bin[i])] += w;
			s.weight += w;
			s.squares += w * w;
			s.samples++;
			s.cut += d.cut[d.node[i]] ? w : 0;
		}
	}
	s.total.set(s.own);
	for (let node = d.nodes - 1; node > 0; node--)
		s.total[d.parent[node]] += s.total[node];
	s.n = facts && facts.weighted && s.squares > 0 ? s.weight * s.weight / s.squares : s.weight;
	s.scale = s.weight > 0 ? s.n / s.weight : 0;
	s.missing = facts ? missing(s, facts) : 0;
	return s;
}

// As account.c counts it: what was due in a part of the recording was not recorded, so there silence is not known.
function missing(s, facts) {
	if (s.isWhole)
		return facts.missing;
	const step = facts.seconds * 1e9 / STEPS, from = s.from * step, to = s.to * step, isTime = s.from > 0 || s.to < STEPS;
	let sum = isTime ? 0 : facts.dropped;
	for (const [a, b, count] of facts.losses)
		if (b >= from && a <= to)
			sum += count;
	for (const [a, b] of facts.throttles)
		if (facts.periodNs > 0 && Math.min(b, to) > Math.max(a, from))
			sum += (Math.min(b, to) - Math.max(a, from)) / facts.periodNs;
	return facts.weighted && s.samples > 0 ? sum * s.n / s.samples : sum;
}

// inside: a Uint8Array by node.
function countInside(s, inside) {
	const d = s.d, of = { whole: s, weight: 0, samples: 0, blocks: new Array(BLOCKS).fill(0), visits: 0, visitsOutside: 0, cutElsewhere: 0 };
	let starts = 0, ends = 0, cut = 0;
	for (const [from, to] of s.ranges) {
		let was = false;
		for (let i = from; i < to; i++) {
			const node = d.node[i], is = inside[node] !== 0;
			if (is) {
				const w = d.weight ? d.weight[i] : 1;
				of.weight += w;
				of.samples++;
				of.blocks[s.blockOf(d.bin[i])] += w;
				cut += d.cut[node] ? w : 0;
				if (!was)
					of.visits++;
			}
			was = is;
		}
		starts += inside[d.node[from]] !== 0 ? 1 : 0;
		ends += was ? 1 : 0;
	}
	of.visitsOutside = of.visits + s.threadCount - starts - ends;
	of.cutElsewhere = s.cut - cut;
	return of;
}

function maskOfSubtrees(d, nodes, mask = new Uint8Array(d.nodes)) {
	for (const node of nodes)
		mask.fill(1, node, d.end[node]);
	return mask;
}

// The node whose function has the code: an inlined one is part of what it is inlined into.
function ownerOf(d, node) {
	while (node > 0 && d.inlined[d.frame[node]])
		node = d.parent[node];
	return node;
}

// Self as the report counts it: samples whose innermost code is one of these nodes'.
function maskOfOwn(d, nodes) {
	const mask = new Uint8Array(d.nodes), stack = [];
	for (const node of nodes) {
		stack.push(node);
		while (stack.length > 0) {
			const at = stack.pop();
			mask[at] = 1;
			for (let child = d.first[at]; child >= 0; child = d.next[child])
				if (d.inlined[d.frame[child]])
					stack.push(child);
		}
	}
	return mask;
}

// Which functions there are: frames that differ only in being inlined are one. id by frame, and frames by id.
function functionsOf(d) {
	const ids = new Map(), of = new Int32Array(d.names.length), list = [];
	d.names.forEach((name, f) => {
		const key = name + "\0" + d.image[f] + "\0" + d.kind[f];
		if (!ids.has(key)) {
			ids.set(key, list.length);
			list.push({ id: list.length, name, frame: f, nodes: [] });
		}
		of[f] = ids.get(key);
	});
	for (let node = 1; node < d.nodes; node++)
		list[of[d.frame[node]]].nodes.push(node);
	return { of, list };
}

// By function: samples that have it anywhere (outermost alone counts) and those it has innermost.
function tallyFunctions(s, functions) {
	const d = s.d, total = new Float64Array(functions.list.length), own = new Float64Array(functions.list.length);
	for (let node = 1; node < d.nodes; node++)
		if (s.own[node] > 0 && ownerOf(d, node) > 0)
			own[functions.of[d.frame[ownerOf(d, node)]]] += s.own[node];
	functions.list.forEach((f, id) => {
		let end = 0; // nodes stand in preorder: below the last one counted are recursions
		for (const node of f.nodes) {
			if (node < end)
				continue;
			total[id] += s.total[node];
			end = d.end[node];
		}
	});
	return { total, own };
}
