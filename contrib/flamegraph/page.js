// The page: views, selections, search, tips, keys.
function element(parent, name, attributes, text) {
	const e = document.createElement(name);
	for (const key in attributes || {})
		e.setAttribute(key, attributes[key]);
	if (text !== undefined)
		e.textContent = text;
	if (parent)
		parent.appendChild(e);
	return e;
}

const percent = share => (100 * share).toFixed(2) + "%";
const counted = n => Math.round(n).toLocaleString("en-US");
// Ends are rounded outward.
const range = ([lo, hi]) => (Math.floor(lo * 1e4 + 1e-9) / 100).toFixed(2) + "\u2013" + (Math.ceil(hi * 1e4 - 1e-9) / 100).toFixed(2) + "%";
const KIND_TEXT = ["", "kernel", "JIT code", "no name known", "the stack is not known beyond this", "command"];

function start(d) {
	const header = d.header, facts = header.facts, unit = header.unit, functions = functionsOf(d), collation = collationOf(d), diff = facts && facts.diff;
	const state = {
		view: header.view, reverse: header.reverse, threads: null, from: 0, to: STEPS, term: "", hits: null, root: null, zoomed: null, current: null,
		sandwich: null, byTotal: false, order: "own", s: null, rows: [], middle: -1, paints: null, changeBy: diff ? diff.by : "", shown: 60,
	};
	const dark = matchMedia("(prefers-color-scheme: dark)");
	let printing = false;
	const isDark = () => dark.matches && !printing;

	// ---------------------------------------------------------------- what stands on the page
	const main = element(document.body, "main");
	const bar = element(main, "div", { class: "bar", role: "toolbar", "aria-label": "View" });
	const views = element(bar, "div", { class: "views", role: "group", "aria-label": "Kind of view" });
	const viewButtons = {};
	for (const [key, text, title] of [["flame", "Flame", "Roots at the bottom"], ["icicle", "Icicle", "Roots at the top"],
	                                  ["sandwich", "Sandwich", "Callers and callees of one function"]]) {
		viewButtons[key] = element(views, "button", { type: "button", title }, text);
		viewButtons[key].addEventListener("click", () => setView(key));
	}
	const reverseLabel = element(bar, "label", { class: "check", title: "Leaves first: who calls the hot functions" });
	const reverse = element(reverseLabel, "input", { type: "checkbox" });
	reverseLabel.append(" leaves first");
	reverse.checked = state.reverse;
	reverse.addEventListener("change", () => { state.reverse = reverse.checked; rebuild(false); });
	if (diff) {
		const by = element(bar, "div", { class: "views", role: "group", "aria-label": "Coloured by the change of" });
		for (const [key, text, title] of [["self", "own code", "Coloured by the change of the function's own code"],
		                                  ["total", "with callees", "Coloured by the change of the function with all it calls"]]) {
			const button = element(by, "button", { type: "button", title, "aria-pressed": String(key === state.changeBy) }, text);
			button.addEventListener("click", () => {
				state.changeBy = key;
				for (const b of by.children)
					b.setAttribute("aria-pressed", String(b === button));
				draw();
			});
		}
	}
	const threadBox = element(bar, "details", { class: "threads" });
	const threadSummary = element(threadBox, "summary");
	const threadList = element(threadBox, "div", { class: "list", role: "group", "aria-label": "Threads" });
	const seek = element(bar, "div", { class: "seek" });
	const input = element(seek, "input", {
		type: "search", placeholder: "Search  /", "aria-label": "Search functions", spellcheck: "false", autocomplete: "off",
		title: "Part of a name, or /regular expression/",
	});
	const share = element(seek, "span", { class: "share", role: "status" });

	const time = element(main, "div", { class: "time" });
	const timeCanvas = element(time, "canvas", { tabindex: "0", role: "slider", "aria-label": "Part of the time", "aria-valuemin": "0", "aria-valuemax": String(STEPS) });
	const line = element(main, "div", { class: "line" });
	const chosen = element(line, "span", { class: "chosen", role: "status" });
	const clearButton = element(line, "button", { type: "button", class: "clear" }, "All threads, all time");
	const focus = element(main, "div", { class: "line focus" });
	const focusName = element(focus, "span", { class: "name" }), focusFacts = element(focus, "span", { class: "facts" });
	const sandwichButton = element(focus, "button", { type: "button" }, "Callers and callees");
	const resetButton = element(focus, "button", { type: "button" }, "Reset zoom");
	const stage = element(main, "div", {
		class: "stage", tabindex: "0", role: "application", "aria-roledescription": "flame graph",
		"aria-label": "Flame graph: arrow keys walk, Enter zooms, S shows callers and callees, slash searches, Escape goes back",
	});
	const room = element(stage, "div", { class: "room" }), canvas = element(room, "canvas", { "aria-hidden": "true" });
	const listBox = element(main, "div", { class: "functions" });
	const legend = element(main, "footer", { class: "legend" });
	const tip = element(document.body, "div", { class: "tip", role: "tooltip" });
	const live = element(document.body, "p", { class: "live", "aria-live": "polite" });
	tip.hidden = true;

	// ---------------------------------------------------------------- figures
	const rowOf = frame => diff && frame >= 0 && d.row[frame] > 0 ? diff.rows[d.row[frame] - 1] : null;
	const changeOfFrame = frame => changeOf(rowOf(frame) && rowOf(frame)[state.changeBy], facts.diff.fdr);

	function measure(mask, cutCounts) {
		const of = countInside(state.s, mask);
		if (!cutCounts)
			of.cutElsewhere = 0;
		return facts ? estimate(facts, of) : { k: of.weight, share: state.s.weight > 0 ? of.weight / state.s.weight : 0 };
	}

	function marksOf(m) {
		const marks = [];
		if (m.runOnly)
			marks.push("run only");
		if (m.few)
			marks.push("too few visits (" + Math.min(m.visits, m.visitsOutside) + ")");
		if (m.trend)
			marks.push("share drifts");
		return marks;
	}

	function amount(m) {
		return counted(m.k) + " " + unit + "  " + percent(m.share);
	}

	const ownNodesOf = box => box.isUp ? null : box.members;

	// Lines of a box's tip: [label, amount, range, remark].
	function figures(box) {
		const lines = [], total = measure(maskOfBox(box), true);
		lines.push({ label: box.isUp && box.parent ? "through here" : "total", m: total });
		if (ownNodesOf(box) && box.frame >= 0 && d.kind[box.frame] !== KIND_TOP && !d.inlined[box.frame])
			lines.push({ label: "self", m: measure(maskOfOwn(d, box.members), false) });
		return lines;
	}

	function nameOf(box) {
		return box.frame < 0 ? "all" : d.names[box.frame];
	}

	function showTip(box, x, y, merged) {
		tip.textContent = "";
		if (merged) {
			element(tip, "div", { class: "name" }, merged + " narrower frame" + (merged > 1 ? "s" : "") + " under " + nameOf(box));
		} else {
			element(tip, "div", { class: "name" }, nameOf(box));
			const where = [box.frame >= 0 ? d.images[d.image[box.frame]] : "", box.frame >= 0 ? KIND_TEXT[d.kind[box.frame]] : "",
				box.frame >= 0 && d.inlined[box.frame] ? "inlined" : "",
				box.members && box.members.length === 1 && d.guessed[box.members[0]] ? "guessed: found without unwind information" : ""];
			if (where.some(text => text !== ""))
				element(tip, "div", { class: "where" }, where.filter(text => text !== "").join(" \u00b7 "));
			const table = element(tip, "table");
			for (const { label, m } of figures(box)) {
				const row = element(table, "tr");
				element(row, "th", {}, label);
				element(row, "td", {}, counted(m.k));
				element(row, "td", { class: "share" }, percent(m.share));
				element(row, "td", {}, m.shown ? range(m.shown) + (m.shownIsRun ? " ~" : "") : "");
				if (!m.shown)
					continue;
				if (m.worst[0] < m.workload[0] || m.worst[1] > m.workload[1]) {
					const worst = element(table, "tr", { class: "minor" });
					element(worst, "th", {}, "");
					element(worst, "td", { colspan: "3" }, "worst case " + range(m.worst) + ", whatever lost and cut stacks held");
				}
				const marks = marksOf(m);
				if (marks.length > 0)
					{
					const row = element(table, "tr", { class: "minor" });
					element(row, "th", {}, "");
					element(row, "td", { colspan: "3" }, marks.join(", "));
				}
			}
			if (box.parent && box.parent.frame >= 0)
				element(tip, "div", { class: "where" }, percent(box.total / box.parent.total) + (box.isUp ? " of what it calls here" : " of its caller"));
			changeLines(box);
		}
		tip.hidden = false;
		const w = tip.offsetWidth, h = tip.offsetHeight, below = y + 18 + h < innerHeight;
		tip.style.setProperty("left", Math.max(6, Math.min(x + 14, innerWidth - w - 8)) + "px");
		tip.style.setProperty("top", Math.max(6, below ? y + 18 : y - h - 12) + "px");
	}

	const STATE_TEXT = {
		found: "differs", open: "not distinguishable", loss: "not robust to loss", few: "too few visits", within: "differs within these runs; what the next run does is not known",
		rare: "fewer than 10 samples: not tested",
	};

	function changeLines(box) {
		const row = rowOf(box.frame);
		if (!row)
			return;
		for (const [key, label] of [["self", "own code"], ["total", "with callees"]]) {
			const r = row[key];
			if (!r)
				continue;
			const parts = [label + ":"];
			if (r.ratio !== null)
				parts.push("\u00d7" + r.ratio.toFixed(3) + (r.lo !== null ? " [" + r.lo.toFixed(3) + ", " + (r.hi === null ? "\u221e" : r.hi.toFixed(3)) + "]" : ""));
			if (r.q !== null)
				parts.push("q " + (r.q < 1e-6 ? "<1e-6" : r.q.toPrecision(2)));
			parts.push(STATE_TEXT[r.state] + (r.note ? ", " + r.note : ""));
			element(tip, "div", { class: "where change" }, parts.join("  "));
		}
	}

	// ---------------------------------------------------------------- selection
	function rebuild(keepsPlace) {
		const path = [];
		for (let box = keepsPlace ? state.zoomed : null; box && box.parent; box = box.parent)
			path.unshift(box.frame);
		state.s = select(d, state.threads, state.from, state.to);
		if (!state.paints)
			state.paints = paintsOf(d, state.s);
		state.tally = null;
		state.root = state.reverse ? reverseRoot(state.s, collation) : mainRoot(state.s, collation);
		state.zoomed = state.root;
		for (const frame of path) {
			const kid = kidsOf(state.zoomed).find(k => k.frame === frame);
			if (!kid)
				break;
			state.zoomed = kid;
		}
		state.current = null;
		showChosen();
		search(state.term);
		refresh();
	}

	const seconds = step => facts ? facts.seconds * step / STEPS : 0;

	function showChosen() {
		const s = state.s, parts = [];
		if (state.threads)
			parts.push(state.threads.size + " of " + d.threads.length + " threads");
		if (state.from > 0 || state.to < STEPS)
			parts.push(seconds(state.from).toFixed(2) + "\u2013" + seconds(state.to).toFixed(2) + " s");
		chosen.textContent = parts.length === 0 ? "" : parts.join(" \u00b7 ") + ": " + counted(s.n) + " " + unit +
			(facts && s.missing > 0 ? ", up to " + counted(s.missing) + " missing" : "");
		line.hidden = parts.length === 0;
		threadSummary.textContent = state.threads ? state.threads.size + " of " + d.threads.length + " threads" : d.threads.length === 1 ? "1 thread" : "all " + d.threads.length + " threads";
		timeCanvas.setAttribute("aria-valuenow", String(state.from));
		timeCanvas.setAttribute("aria-valuetext", seconds(state.from).toFixed(2) + " to " + seconds(state.to).toFixed(2) + " seconds");
		drawTime();
	}

	function setThreads(set) {
		state.threads = set && set.size < d.threads.length ? set : null;
		for (const box of threadList.querySelectorAll("input"))
			box.checked = !state.threads || state.threads.has(Number(box.value));
		rebuild(true);
	}

	function setTime(from, to) {
		state.from = Math.max(0, Math.min(from, to, STEPS - 1));
		state.to = Math.min(STEPS, Math.max(from, to, state.from + 1));
		rebuild(true);
	}

	function fillThreads() {
		threadBox.hidden = d.threads.length < 2;
		const row = element(threadList, "div", { class: "both" });
		element(row, "button", { type: "button" }, "all").addEventListener("click", () => setThreads(null));
		element(row, "button", { type: "button" }, "none").addEventListener("click", () => {
			state.threads = new Set();
			for (const box of threadList.querySelectorAll("input"))
				box.checked = false;
		});
		d.threads.map((name, t) => [t, name, d.threadStart[t + 1] - d.threadStart[t]]).sort((a, b) => b[2] - a[2]).forEach(([t, name, count]) => {
			const label = element(threadList, "label");
			const box = element(label, "input", { type: "checkbox", value: String(t) });
			box.checked = true;
			element(label, "span", { class: "name" }, name);
			element(label, "span", { class: "count" }, counted(count));
			box.addEventListener("change", () => {
				const set = new Set(state.threads || d.threads.keys());
				if (box.checked)
					set.add(t);
				else
					set.delete(t);
				setThreads(set);
			});
		});
	}

	// ---------------------------------------------------------------- time
	const bins = new Float64Array(header.bins);
	for (let i = 0; i < d.bin.length; i++)
		bins[d.bin[i]] += d.weight ? d.weight[i] : 1;
	time.hidden = header.bins < 2;

	function scaled(c, w, h) {
		const ratio = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
		c.width = Math.round(w * ratio);
		c.height = Math.round(h * ratio);
		c.style.setProperty("width", w + "px");
		c.style.setProperty("height", h + "px");
		const context = c.getContext("2d");
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		return context;
	}

	function drawTime() {
		if (time.hidden)
			return;
		const w = time.clientWidth, h = 40, context = scaled(timeCanvas, w, h), bars = Math.min(250, Math.max(50, Math.floor(w / 4)));
		const sums = new Float64Array(bars), lost = new Float64Array(bars), span = facts ? facts.seconds * 1e9 : 1;
		bins.forEach((n, b) => { sums[Math.min(bars - 1, Math.floor(b * bars / bins.length))] += n; });
		for (const [a, b, count] of facts ? facts.losses : [])
			for (let i = Math.max(0, Math.floor(a / span * bars)), end = Math.min(bars - 1, Math.floor(b / span * bars)); i <= end; i++)
				lost[i] += count / (end - Math.max(0, Math.floor(a / span * bars)) + 1);
		const most = sums.reduce((x, y, i) => Math.max(x, y + lost[i]), 1), step = w / bars;
		const from = state.from / STEPS * w, to = state.to / STEPS * w;
		for (let i = 0; i < bars; i++) {
			const inside = (i + 0.5) * step > from && (i + 0.5) * step < to, y = sums[i] / most * (h - 8), l = lost[i] / most * (h - 8);
			context.fillStyle = inside ? (isDark() ? "#d9884f" : "#d97a3a") : isDark() ? "#4b443c" : "#d9d1c6";
			context.fillRect(i * step, h - 3 - y, Math.max(1, step - 1), y);
			context.fillStyle = isDark() ? "#ff7a6e" : "#c0281c";
			if (l > 0)
				context.fillRect(i * step, h - 3 - y - Math.max(l, 2), Math.max(1, step - 1), Math.max(l, 2));
		}
		context.fillStyle = isDark() ? "#6b6258" : "#b5aa9c";
		context.fillRect(0, h - 2, w, 1);
		if (state.from > 0 || state.to < STEPS) {
			context.fillStyle = isDark() ? "#f3eee8" : "#1f1b18";
			context.fillRect(from, 0, 2, h);
			context.fillRect(to - 2, 0, 2, h);
		}
	}

	const stepAt = event => Math.max(0, Math.min(1, (event.clientX - timeCanvas.getBoundingClientRect().left) / timeCanvas.clientWidth)) * STEPS;
	let dragged = null;
	timeCanvas.addEventListener("pointerdown", event => { dragged = stepAt(event); timeCanvas.setPointerCapture(event.pointerId); });
	timeCanvas.addEventListener("pointermove", event => {
		if (dragged !== null && Math.abs(stepAt(event) - dragged) > 0.4)
			setTime(Math.floor(Math.min(dragged, stepAt(event))), Math.ceil(Math.max(dragged, stepAt(event))));
	});
	timeCanvas.addEventListener("pointerup", event => {
		if (dragged !== null && Math.abs(stepAt(event) - dragged) <= 0.4)
			setTime(0, STEPS);
		dragged = null;
	});
	timeCanvas.addEventListener("keydown", event => {
		const move = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
		if (move === 0)
			return;
		event.preventDefault();
		event.stopPropagation();
		const length = state.to - state.from;
		if (event.shiftKey)
			setTime(state.from, Math.max(state.from + 1, state.to + move));
		else if (length === STEPS)
			setTime(move > 0 ? 0 : STEPS - 5, move > 0 ? 5 : STEPS);
		else if (state.from + move >= 0 && state.to + move <= STEPS)
			setTime(state.from + move, state.to + move);
	});
	clearButton.addEventListener("click", () => { state.from = 0; state.to = STEPS; setThreads(null); });

	// ---------------------------------------------------------------- drawing
	const widths = new Map();
	let items = [], frameRequest = 0;

	function layout() {
		const width = stage.clientWidth, rows = [], above = [];
		state.middle = -1;
		if (state.view === "sandwich") {
			const roots = state.sandwich;
			layOut(roots.up, width, above);
			layOut(roots.down, width, rows);
			above.shift();
			state.middle = above.length;
			state.rows = above.reverse().concat(rows);
		} else {
			const past = [];
			for (let box = state.zoomed.parent; box; box = box.parent)
				past.unshift([{ box, x: 0, w: width, merged: 0, past: true }]);
			layOut(state.zoomed, width, rows);
			state.rows = past.concat(rows);
			if (state.view === "flame")
				state.rows.reverse();
		}
		const height = state.rows.length * PITCH;
		room.style.setProperty("height", Math.max(height, stage.clientHeight - 1) + "px");
		state.top = state.view === "flame" ? Math.max(0, stage.clientHeight - 1 - height) : 0;
	}

	function draw() {
		if (state.view === "sandwich" && !state.sandwich)
			return;
		const w = stage.clientWidth, h = printing ? Math.min(state.rows.length * PITCH, 16000) : stage.clientHeight, context = scaled(canvas, w, h), isDarkNow = isDark();
		context.font = "12px system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
		const look = {
			context, d, widths, width: w, hits: state.hits, current: state.current, text: textOn(isDarkNow), ink: isDarkNow ? "#f3eee8" : "#1f1b18",
			narrow: isDarkNow ? "#3b352f" : "#e9e3da", top: isDarkNow ? "#3b352f" : "#e2dbd0", hit: isDarkNow ? "#d6409f" : "#c2288a",
			color: diff ? frame => changeColor(changeOfFrame(frame), isDarkNow) : frame => colorOf(d, state.paints, frame, isDarkNow), label: nameOf,
		};
		const scroll = printing ? 0 : stage.scrollTop, top = printing ? 0 : state.top;
		items = [];
		for (let r = Math.max(0, Math.floor((scroll - top) / PITCH)); r < state.rows.length; r++) {
			const y = top + r * PITCH - scroll;
			if (y > h)
				break;
			for (const item of state.rows[r]) {
				drawItem(look, item, item.x, y);
				items.push({ item, y, row: r });
			}
			if (r === state.middle) {
				context.globalAlpha = 1;
				context.strokeStyle = look.ink;
				context.strokeRect(0.5, y - 0.5, w - 1, PITCH);
			}
		}
		context.globalAlpha = 1;
	}

	function redraw() {
		if (frameRequest === 0)
			frameRequest = requestAnimationFrame(() => { frameRequest = 0; draw(); });
	}

	function refresh() {
		const isList = state.view === "sandwich" && !state.functionId;
		for (const key in viewButtons)
			viewButtons[key].setAttribute("aria-pressed", String(key === state.view));
		reverseLabel.hidden = state.view === "sandwich";
		listBox.hidden = !isList;
		stage.hidden = isList;
		hideTip();
		showFocus();
		if (isList) {
			showList();
			return;
		}
		if (state.view === "sandwich")
			state.sandwich = sandwichRoots(state.s, collation, functions.list[state.functionId - 1].nodes);
		layout();
		stage.scrollTop = state.view === "flame" ? 1e9 : state.view === "sandwich" ? Math.max(0, state.middle * PITCH - stage.clientHeight / 2) : 0;
		draw();
	}

	function showFocus() {
		const f = state.view === "sandwich" && state.functionId ? functions.list[state.functionId - 1] : null, box = state.zoomed;
		focus.hidden = !(f || (state.view !== "sandwich" && box !== state.root));
		if (focus.hidden)
			return;
		focusName.textContent = f ? f.name : nameOf(box);
		sandwichButton.hidden = f !== null;
		resetButton.textContent = f ? "All functions" : "Reset zoom";
		const lines = f ? functionFigures(f) : figures(box);
		focusFacts.textContent = lines.map(({ label, m }) => label + " " + amount(m) + (m.shown ? "  [" + range(m.shown) + (m.shownIsRun ? " ~" : "") + "]" : "")).join("      ");
	}

	function functionFigures(f) {
		return [{ label: "total", m: measure(maskOfSubtrees(d, f.nodes), true) },
			{ label: "self", m: measure(maskOfOwn(d, f.nodes.filter(node => !d.inlined[d.frame[node]])), false) }];
	}

	function zoom(box) {
		state.zoomed = box;
		state.current = null;
		refresh();
	}

	function setView(view) {
		if (view === "sandwich" && state.view === "sandwich")
			state.functionId = 0;
		state.view = view;
		state.current = null;
		refresh();
	}

	function showSandwich(frame) {
		if (frame < 0)
			return;
		state.functionId = functions.of[frame] + 1;
		state.view = "sandwich";
		state.current = null;
		refresh();
		stage.focus({ preventScroll: true });
	}

	// ---------------------------------------------------------------- functions
	function showList() {
		const tally = state.tally || (state.tally = tallyFunctions(state.s, functions));
		const wanted = state.hits ? f => state.hits[f.frame] : () => true;
		const list = functions.list.filter(f => d.kind[f.frame] !== KIND_TOP && tally.total[f.id] > 0 && wanted(f));
		list.sort((a, b) => tally[state.order][b.id] - tally[state.order][a.id] || tally.total[b.id] - tally.total[a.id] || (a.name < b.name ? -1 : 1));
		listBox.textContent = "";
		const table = element(listBox, "table"), head = element(element(table, "thead"), "tr");
		for (const [key, text] of [["own", "self"], ["", "range"], ["total", "total"], ["", "range"]]) {
			const cell = element(head, "th", { scope: "col" });
			if (key === "") {
				cell.textContent = text;
				continue;
			}
			cell.setAttribute("aria-sort", state.order === key ? "descending" : "none");
			element(cell, "button", { type: "button" }, text + (state.order === key ? " \u25be" : "")).addEventListener("click", () => { state.order = key; showList(); });
		}
		element(head, "th", { scope: "col", class: "wide" }, "function");
		const body = element(table, "tbody");
		for (const f of list.slice(0, state.shown)) {
			const [total, own] = functionFigures(f), row = element(body, "tr");
			for (const { m } of [own, total]) {
				element(row, "td", { class: "share" }, percent(m.share));
				element(row, "td", { title: m.shown ? marksOf(m).join(", ") : "" }, m.shown && m.k > 0 ? range(m.shown) + (m.shownIsRun ? "~" : m.trend ? "^" : "") : "");
			}
			const cell = element(element(row, "td", { class: "wide" }), "div");
			element(cell, "i", { class: "swatch" }).style.setProperty("background", diff ? changeColor(changeOfFrame(f.frame), isDark()) : colorOf(d, state.paints, f.frame, isDark()));
			element(cell, "button", { type: "button", class: "name" }, f.name).addEventListener("click", () => showSandwich(f.frame));
			element(cell, "span", { class: "file" }, d.images[d.image[f.frame]]);
		}
		if (list.length > state.shown)
			element(listBox, "button", { type: "button", class: "more" }, "100 more of " + counted(list.length)).addEventListener("click", () => { state.shown += 100; showList(); });
		if (list.length === 0)
			element(listBox, "p", {}, "no function");
	}

	// ---------------------------------------------------------------- search
	function matcher(term) {
		if (term.length > 2 && term.startsWith("/") && term.endsWith("/")) {
			const expression = new RegExp(term.slice(1, -1), "i");
			return name => expression.test(name);
		}
		const wanted = term.toLowerCase();
		return name => name.toLowerCase().includes(wanted);
	}

	function search(term) {
		state.term = term;
		state.hits = null;
		share.classList.remove("bad");
		share.textContent = "";
		if (term === "")
			return;
		try {
			state.hits = Uint8Array.from(d.names, matcher(term));
		} catch (error) {
			share.textContent = "not a regular expression";
			share.classList.add("bad");
			return;
		}
		const mask = new Uint8Array(d.nodes);
		for (let node = 1; node < d.nodes; node++)
			mask[node] = mask[d.parent[node]] || (state.hits[d.frame[node]] && d.kind[d.frame[node]] !== KIND_TOP) ? 1 : 0;
		const m = measure(mask, true);
		share.textContent = m.k > 0 ? percent(m.share) + " matched" + (m.shown ? " [" + range(m.shown) + (m.shownIsRun ? "~" : "") + "]" : "") : "no match";
	}

	input.addEventListener("input", () => {
		search(input.value);
		if (state.view === "sandwich" && !state.functionId)
			showList();
		else
			redraw();
	});

	// ---------------------------------------------------------------- pointer
	function itemAt(event) {
		const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
		const found = items.find(({ item, y: top }) => y >= top && y < top + PITCH && x >= item.x && x < item.x + Math.max(item.w, 1));
		return found ? found.item : null;
	}

	function hideTip() {
		tip.hidden = true;
	}

	let over = null;
	stage.addEventListener("mousemove", event => {
		const item = itemAt(event);
		if (!item) {
			over = null;
			hideTip();
			canvas.style.removeProperty("cursor");
		} else if (item !== over || !tip.hidden) {
			canvas.style.setProperty("cursor", "pointer");
			if (item !== over || Math.abs(event.movementX) + Math.abs(event.movementY) > 0)
				showTip(item.box, event.clientX, event.clientY, item.merged);
			over = item;
		}
	});
	stage.addEventListener("mouseleave", () => { over = null; hideTip(); });
	stage.addEventListener("click", event => {
		const item = itemAt(event);
		if (!item || item.merged)
			return;
		if (state.view === "sandwich")
			showSandwich(item.box.frame);
		else
			zoom(item.box);
	});
	stage.addEventListener("scroll", () => { hideTip(); redraw(); }, { passive: true });
	resetButton.addEventListener("click", () => {
		if (state.view === "sandwich")
			setView("sandwich");
		else
			zoom(state.root);
	});
	sandwichButton.addEventListener("click", () => showSandwich(state.zoomed.frame));

	// ---------------------------------------------------------------- keys
	function placeOf(box) {
		for (let r = 0; r < state.rows.length; r++)
			for (const item of state.rows[r])
				if (item.box === box && !item.merged)
					return { item, row: r };
		return null;
	}

	function setCurrent(box) {
		state.current = box;
		const place = box && placeOf(box);
		if (!place) {
			hideTip();
			draw();
			return;
		}
		const y = state.top + place.row * PITCH;
		if (y < stage.scrollTop)
			stage.scrollTop = y;
		else if (y + PITCH > stage.scrollTop + stage.clientHeight)
			stage.scrollTop = y + PITCH - stage.clientHeight;
		draw();
		const at = canvas.getBoundingClientRect();
		showTip(box, at.left + place.item.x, at.top + y - stage.scrollTop, 0);
		const [total, own] = figures(box);
		live.textContent = nameOf(box) + ", total " + amount(total.m) + (own ? ", self " + amount(own.m) : "");
	}

	function step(key) {
		const first = state.view === "sandwich" ? state.sandwich.down : state.zoomed;
		const place = state.current && placeOf(state.current);
		if (!place)
			return first;
		if (key === "ArrowLeft" || key === "ArrowRight") {
			const row = state.rows[place.row].filter(item => !item.merged), at = row.indexOf(place.item);
			return (row[at + (key === "ArrowLeft" ? -1 : 1)] || place.item).box;
		}
		const next = state.rows[place.row + (key === "ArrowUp" ? -1 : 1)], middle = place.item;
		let best = null;
		for (const item of next || [])
			if (!item.merged && item.x < middle.x + middle.w - 0.01 && item.x + item.w > middle.x + 0.01 && (!best || item.w > best.w))
				best = item;
		return best ? best.box : place.item.box;
	}

	function escape() {
		if (input.value !== "") {
			input.value = "";
			search("");
			refresh();
		} else if (document.activeElement === input) {
			stage.focus({ preventScroll: true });
		} else if (state.current) {
			setCurrent(null);
		} else if (state.view === "sandwich" && state.functionId) {
			setView("sandwich");
		} else if (state.zoomed !== state.root) {
			zoom(state.root);
		} else if (!line.hidden) {
			clearButton.click();
		}
	}

	document.addEventListener("keydown", event => {
		if (event.altKey || event.metaKey)
			return;
		if (event.key === "Escape")
			return escape();
		if (document.activeElement === input)
			return;
		const isOnButton = document.activeElement && /^(BUTTON|SUMMARY|INPUT)$/.test(document.activeElement.tagName);
		if ((event.key === "/" && !event.ctrlKey) || (event.key === "f" && event.ctrlKey)) {
			input.focus();
			input.select();
		} else if (event.ctrlKey || (isOnButton && (event.key === "Enter" || event.key === " "))) {
			return;
		} else if (event.key.startsWith("Arrow") && !stage.hidden) {
			setCurrent(step(event.key));
		} else if (event.key === "Enter" && state.current) {
			const box = state.current;
			if (state.view === "sandwich")
				return showSandwich(box.frame);
			zoom(box);
			setCurrent(box);
		} else if (event.key === "s" && state.current) {
			showSandwich(state.current.frame);
		} else if (event.key === "Home" || event.key === "0") {
			zoom(state.root);
		} else if (event.key === "f" || event.key === "i") {
			setView(event.key === "f" ? "flame" : "icicle");
		} else {
			return;
		}
		event.preventDefault();
	});

	// ---------------------------------------------------------------- legend, print, sizes
	function swatch(color, text, kind) {
		const entry = element(legend, "span", { class: "entry" });
		element(entry, "i", { class: "swatch" + (kind ? " " + kind : "") }).style.setProperty("background", color);
		entry.append(text);
	}

	function showLegend() {
		legend.textContent = "";
		const now = isDark(), kinds = new Set(d.kind), p = state.paints, guess = d.guessed.some(v => v === 1);
		if (diff) {
			swatch(changeColor("+3", now), "slower, q \u2264 " + diff.fdr / 1000);
			swatch(changeColor("+1", now), "q \u2264 " + diff.fdr);
			swatch(changeColor("-3", now), "faster, q \u2264 " + diff.fdr / 1000);
			swatch(changeColor("-1", now), "q \u2264 " + diff.fdr);
			if (diff.within) {
				swatch(changeColor("+?", now), "slower within these runs only");
				swatch(changeColor("-?", now), "faster within these runs only");
			}
			swatch(changeColor("", now), "not distinguishable");
		} else {
			p.files.forEach(image => swatch(fileColor(p, image, now, 0), d.images[image]));
			if (kinds.has(KIND_USER) && (p.more || p.files.length === 0))
				swatch(fileColor(p, p.files.length === 0 ? 0 : -1, now, 0), p.files.length === 0 ? "user" : "other files");
			if (kinds.has(KIND_KERNEL))
				swatch(hsl(p.palette.kernel, 0.62 * p.palette.saturation, now ? 0.64 : 0.75), "kernel");
			if (kinds.has(KIND_JIT))
				swatch(hsl(p.palette.jit, 0.6 * p.palette.saturation, now ? 0.68 : 0.77), "JIT");
			if (kinds.has(KIND_UNKNOWN))
				swatch(hsl(30, 0.03, now ? 0.5 : 0.8), "no name known");
		}
		if (kinds.has(KIND_END))
			swatch(hsl(30, 0.03, now ? 0.5 : 0.8), "not unwound", "hatched");
		if (guess)
			swatch("transparent", "guessed frames", "hatched");
		if (!diff && d.inlined.includes(true))
			swatch("transparent", "paler: inlined", "none");
		element(legend, "span", { class: "keys" }, "Left to right by name, not time. Click or Enter zooms; S: callers and callees; arrows walk; / searches; Esc goes back.");
	}

	function resize() {
		drawTime();
		if (!stage.hidden && state.root) {
			layout();
			draw();
		}
	}

	function setPrinting(is) {
		printing = is;
		document.body.classList.toggle("printing", is);
		if (is && !stage.hidden)
			room.style.setProperty("height", Math.min(state.rows.length * PITCH, 16000) + "px");
		showLegend();
		resize();
	}

	window.addEventListener("resize", resize);
	window.addEventListener("beforeprint", () => setPrinting(true));
	window.addEventListener("afterprint", () => setPrinting(false));
	dark.addEventListener("change", () => { showLegend(); refresh(); drawTime(); });
	document.addEventListener("click", event => { if (threadBox.open && !threadBox.contains(event.target)) threadBox.open = false; });
	fillThreads();
	rebuild(false);
	showLegend();
	resize();
	refresh();
	// For scripts and tests: what is drawn and where, and a function's figures under the present selection.
	window.flamegraph = {
		boxes: () => items.map(({ item, y }) => {
			const at = canvas.getBoundingClientRect();
			return { name: nameOf(item.box), merged: item.merged, past: item.past === true, x: at.left + item.x, y: at.top + y, w: item.w, h: PITCH, total: item.box.total,
				change: diff ? changeOfFrame(item.box.frame) : "" };
		}),
		figures: () => functions.list.map(f => ({ name: f.name, image: d.images[d.image[f.frame]], kind: d.kind[f.frame], row: functionFigures(f) })),
		nodes: d.nodes,
	};
}

unpack().then(start, error => { element(document.body, "p", { class: "failed" }, "This page could not be read: " + error.message); });
