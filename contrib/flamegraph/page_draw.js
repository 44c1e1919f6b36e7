// Boxes made where they are wide enough to be seen, their layout, colours, and the canvas.
const PITCH = 20, LEAST = 0.6, GAP = 18;

// A box of a tree downwards holds the main tree's nodes that are merged in it; of a tree upwards (callers) the nodes it began at, and where each
// has come to. Children are made when they are asked for.
function makeBox(view, parent, frame, part) {
	return Object.assign({ view, parent, frame, depth: parent ? parent.depth + 1 : 0, kids: null, total: 0 }, part);
}

function grouped(view, box, each) {
	const groups = new Map(), d = view.s.d, kids = [];
	each((frame, put) => {
		let kid = groups.get(frame);
		if (!kid) {
			kid = makeBox(view, box, frame, box.isUp ? { isUp: true, origins: [], at: [] } : { members: [] });
			groups.set(frame, kid);
			kids.push(kid);
		}
		put(kid);
	});
	const named = view.collation;
	return kids.sort((a, b) => named[a.frame] - named[b.frame] || d.image[a.frame] - d.image[b.frame] || a.frame - b.frame);
}

function kidsOf(box) {
	if (box.kids)
		return box.kids;
	const view = box.view, s = view.s, d = s.d;
	if (box.isUp) {
		box.kids = grouped(view, box, add => box.at.forEach((at, i) => {
			const next = box.isTop ? at : d.parent[at];
			if (next > 0)
				add(d.frame[next], kid => {
					kid.origins.push(box.origins[i]);
					kid.at.push(next);
					kid.total += view.exact ? s.own[box.origins[i]] : s.total[box.origins[i]];
				});
		}));
	} else {
		box.kids = grouped(view, box, add => box.members.forEach(member => {
			for (let child = d.first[member]; child >= 0; child = d.next[child])
				if (s.total[child] > 0)
					add(d.frame[child], kid => {
						kid.members.push(child);
						kid.total += s.total[child];
					});
		}));
	}
	return box.kids;
}

function maskOfBox(box) {
	const d = box.view.s.d;
	if (!box.isUp)
		return maskOfSubtrees(d, box.members);
	if (!box.view.exact)
		return maskOfSubtrees(d, box.origins);
	const mask = new Uint8Array(d.nodes);
	box.origins.forEach(node => { mask[node] = 1; });
	return mask;
}

// Names' places in the order of the alphabet, so that sorting compares numbers.
function collationOf(d) {
	const order = d.names.map((name, f) => f).sort((a, b) => d.names[a] < d.names[b] ? -1 : d.names[a] > d.names[b] ? 1 : 0);
	const place = new Int32Array(d.names.length);
	let rank = -1;
	order.forEach((f, i) => {
		rank += i === 0 || d.names[f] !== d.names[order[i - 1]] ? 1 : 0;
		place[f] = rank;
	});
	return place;
}

function mainRoot(s, collation) {
	const view = { s, collation };
	return makeBox(view, null, -1, { members: [0], total: s.total[0] });
}

function reverseRoot(s, collation) {
	const view = { s, collation, exact: true }, nodes = [];
	for (let node = 1; node < s.d.nodes; node++)
		if (s.own[node] > 0)
			nodes.push(node);
	return makeBox(view, null, -1, { isUp: true, isTop: true, origins: nodes, at: nodes, total: s.total[0] });
}

// Callers and callees of a function: two roots over its outermost occurrences.
function sandwichRoots(s, collation, nodes) {
	const view = { s, collation }, outermost = [], d = s.d;
	let end = 0;
	for (const node of nodes) {
		if (node < end || !(s.total[node] > 0))
			continue;
		outermost.push(node);
		end = d.end[node];
	}
	const total = outermost.reduce((sum, node) => sum + s.total[node], 0), frame = d.frame[nodes[0]];
	return {
		up: makeBox(view, null, frame, { isUp: true, origins: outermost, at: outermost, total }),
		down: makeBox(view, null, frame, { members: outermost, total }),
	};
}

// What is drawn of a tree: items by row, row 0 the root's; narrow siblings side by side are one item.
function layOut(root, width, rows) {
	const scale = root.total > 0 ? width / root.total : 0, pending = [{ box: root, x: 0, row: 0 }];
	const put = (row, item) => (rows[row] || (rows[row] = [])).push(item);
	while (pending.length > 0) {
		const { box, x, row } = pending.pop();
		put(row, { box, x, w: box.total * scale, merged: 0 });
		let at = x, narrow = 0, narrowFrom = 0;
		const flush = () => {
			if (narrow > 0 && at - narrowFrom >= LEAST)
				put(row + 1, { box, x: narrowFrom, w: at - narrowFrom, merged: narrow });
			narrow = 0;
		};
		for (const kid of kidsOf(box)) {
			const w = kid.total * scale;
			if (w < LEAST) {
				narrowFrom = narrow++ === 0 ? at : narrowFrom;
			} else {
				flush();
				pending.push({ box: kid, x: at, row: row + 1 });
			}
			at += w;
		}
		flush();
	}
	for (const row of rows)
		row.sort((a, b) => a.x - b.x);
	return rows;
}

// ---- colours: a hue a file, with the kernel, JIT code and what is not known apart
const FILE_HUES = [26, 48, 352, 88, 158, 316], OTHER_HUE = 36;
const PALETTES = [
	{ files: FILE_HUES, other: OTHER_HUE, kernel: 212, jit: 268, saturation: 1 },
	{ files: [172, 145, 196, 118, 76, 222], other: 180, kernel: 262, jit: 320, saturation: 0.8 },
	{ files: [30, 40, 20, 50, 60, 10], other: 30, kernel: 215, jit: 270, saturation: 0.12 },
];

function hashOf(text) {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++)
		h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return h >>> 0;
}

function paintsOf(d, s) { // the files with most samples of their own get hues of their own
	const own = new Map(), palette = PALETTES[d.header.colors] || PALETTES[0];
	for (let node = 1; node < d.nodes; node++)
		if (s.own[node] > 0 && d.kind[d.frame[node]] === KIND_USER)
			own.set(d.image[d.frame[node]], (own.get(d.image[d.frame[node]]) || 0) + s.own[node]);
	const files = Array.from(own.keys()).filter(image => d.images[image] !== "").sort((a, b) => own.get(b) - own.get(a) || a - b);
	const hues = new Map(files.slice(0, palette.files.length).map((image, i) => [image, palette.files[i]]));
	const more = d.kind.some((kind, f) => kind === KIND_USER && d.image[f] !== 0 && !hues.has(d.image[f])); // called, with few samples of its own
	return { palette, files: files.slice(0, palette.files.length), more, hues, cache: new Map() };
}

function hsl(h, s, l) {
	return "hsl(" + h.toFixed(0) + " " + (100 * s).toFixed(0) + "% " + (100 * l).toFixed(1) + "%)";
}

function fileColor(paints, image, isDark, jitter) {
	const hue = paints.hues.has(image) ? paints.hues.get(image) : paints.palette.other, known = paints.hues.has(image) || image === 0;
	const strength = !known ? 0.3 : hue >= 60 && hue < 300 ? 0.42 : hue >= 300 ? 0.56 : 0.8; // greens and pinks look stronger than they are
	return hsl(hue + 5 * jitter, strength * paints.palette.saturation * (isDark ? 0.72 : 1), (isDark ? 0.6 : 0.71) + 0.05 * jitter);
}

function colorOf(d, paints, frame, isDark) {
	const key = frame * 2 + (isDark ? 1 : 0);
	if (paints.cache.has(key))
		return paints.cache.get(key);
	const jitter = (hashOf(d.names[frame]) % 1000) / 500 - 1, kind = d.kind[frame], p = paints.palette;
	let color;
	if (kind === KIND_KERNEL)
		color = hsl(p.kernel + 7 * jitter, 0.62 * p.saturation * (isDark ? 0.8 : 1), (isDark ? 0.64 : 0.75) + 0.04 * jitter);
	else if (kind === KIND_JIT)
		color = hsl(p.jit + 8 * jitter, 0.6 * p.saturation * (isDark ? 0.8 : 1), (isDark ? 0.68 : 0.77) + 0.04 * jitter);
	else if (kind === KIND_UNKNOWN || kind === KIND_END)
		color = hsl(30, 0.03, (isDark ? 0.5 : 0.8) + 0.02 * jitter);
	else if (kind === KIND_TOP)
		color = hsl(30, 0.12, isDark ? 0.42 : 0.86);
	else
		color = fileColor(paints, d.image[frame], isDark, jitter);
	if (d.inlined[frame])
		color = "color-mix(in srgb, " + color + " 62%, " + (isDark ? "#d9cdbd" : "#fffdf8") + ")";
	paints.cache.set(key, color);
	return color;
}

// ---- a comparison: by how sure it is, never by how large; gray is what cannot be told apart
const CHANGE_GRAY = "?";

function changeOf(row, q) { // "+3" … "+1", "+?" (within these runs only), "", "-1" …
	if (!row || row.q === null)
		return "";
	const sign = row.up ? "+" : "-";
	if (row.state === "within")
		return sign + CHANGE_GRAY;
	if (row.state !== "found")
		return "";
	return sign + (row.q <= q / 1000 ? 3 : row.q <= q / 20 ? 2 : 1);
}

function changeColor(change, isDark) {
	if (change === "")
		return isDark ? "hsl(30 4% 46%)" : "hsl(36 10% 86%)";
	const hue = change[0] === "+" ? 8 : 212;
	if (change[1] === CHANGE_GRAY)
		return hsl(hue, 0.34, isDark ? 0.66 : 0.86);
	const level = Number(change[1]);
	return hsl(hue, 0.5 + 0.13 * level, (isDark ? 0.72 : 0.84) - 0.075 * level);
}

function textOn(isDark) {
	return isDark ? "#120f0c" : "#1c1611";
}

// The part of a text that fits, by a cache of widths.
function fitted(context, widths, text, room) {
	let w = widths.get(text);
	if (w === undefined)
		widths.set(text, w = context.measureText(text).width);
	if (w <= room)
		return text;
	const keep = Math.floor(text.length * (room - 8) / w);
	return keep >= 2 ? text.slice(0, keep) + "\u2026" : "";
}

function drawItem(look, item, x, y) {
	const { context, d } = look, w = Math.max(item.w - (item.w > 3 ? 1 : 0), 0.5), h = PITCH - 1, box = item.box;
	context.globalAlpha = item.past ? 0.5 : look.hits && !item.merged && !(box.frame >= 0 && look.hits[box.frame]) ? 0.28 : 1;
	if (look.hits && item.merged)
		context.globalAlpha = 0.28;
	context.fillStyle = item.merged ? look.narrow : box.frame < 0 ? look.top : look.hits && look.hits[box.frame] ? look.hit : look.color(box.frame);
	context.beginPath();
	if (w > 6)
		context.roundRect(x, y, w, h, 2.5);
	else
		context.rect(x, y, w, h);
	context.fill();
	if (!item.merged && box.frame >= 0 && w > 3 && (d.kind[box.frame] === KIND_END || (box.members && box.members.length === 1 && d.guessed[box.members[0]])))
		hatch(look, x, y, w, h, d.kind[box.frame] === KIND_END);
	if (look.current === box && !item.merged) {
		context.globalAlpha = 1;
		context.strokeStyle = look.ink;
		context.lineWidth = 2;
		context.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), h - 2);
	}
	if (item.w < 26 || item.merged)
		return;
	const left = Math.max(x, 0), room = Math.min(x + w, look.width) - left - 8;
	const text = fitted(context, look.widths, look.label(box), room);
	if (text === "")
		return;
	context.fillStyle = box.frame < 0 ? look.ink : look.hits && look.hits[box.frame] ? "#fff" : look.text;
	context.fillText(text, left + 4, y + 14);
}

function hatch(look, x, y, w, h, isEnd) { // knowledge ends here, or is a guess
	const c = look.context;
	c.save();
	c.beginPath();
	c.rect(x, y, w, h);
	c.clip();
	c.strokeStyle = isEnd ? "rgb(0 0 0 / 0.22)" : "rgb(0 0 0 / 0.13)";
	c.lineWidth = 1;
	c.beginPath();
	for (let at = x - h - (x % 7); at < x + w; at += 7) {
		c.moveTo(at, y + h);
		c.lineTo(at + h, y);
	}
	c.stroke();
	c.restore();
}
