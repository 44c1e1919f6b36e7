(function () {
	"use strict";
	const SVG = "http://www.w3.org/2000/svg", XHTML = "http://www.w3.org/1999/xhtml";
	const svg = document.querySelector("svg.flamegraph");
	const data = svg.dataset;
	const unit = data.unit, total = Number(data.total), isInverted = data.inverted === "1", fixedWidth = Number(data.width);
	const PITCH = 18, MARGIN = 12, COLUMN = 7.23;
	const head = svg.querySelector("g.head"), back = svg.querySelector("rect.back"), headBack = head.querySelector("rect.back");

	// Frames stand in the file parents first, so the last one a level lower is the parent.
	const last = [];
	const frames = Array.from(svg.querySelectorAll("g.f"), (g, index) => {
		const title = g.querySelector("title"), rect = g.querySelector("rect");
		const frame = {
			g, rect, index, text: g.querySelector("text"), name: title.textContent.split("\n")[0],
			start: Number(g.dataset.s), count: Number(g.dataset.n), self: Number(g.dataset.o || 0), samples: Number(g.dataset.k || 0), depth: Number(g.dataset.d), children: [],
		};
		title.remove(); // the tip says more, and at once
		frame.parent = frame.depth > 0 ? last[frame.depth - 1] : null;
		if (frame.parent)
			frame.parent.children.push(frame);
		last[frame.depth] = frame;
		g.frame = frame;
		return frame;
	});
	const root = frames[0];
	let width = 0, zoomed = root, current = null;

	function element(parent, namespace, name, attributes) {
		const e = document.createElementNS(namespace, name);
		for (const key in attributes)
			e.setAttribute(key, attributes[key]);
		parent.appendChild(e);
		return e;
	}

	function percent(part, whole) {
		return whole > 0 ? (100 * part / whole).toFixed(2) + "%" : "0%";
	}

	function counted(n) {
		return n.toLocaleString("en-US") + " " + unit;
	}

	function label(frame, w) {
		const columns = Math.floor((w - 6) / COLUMN);
		let text = "";
		if (columns >= 3) {
			const letters = Array.from(frame.name);
			text = letters.length <= columns ? frame.name : letters.slice(0, columns - 1).join("") + "\u2026";
		}
		if (!frame.text && text === "")
			return;
		if (!frame.text) {
			frame.text = element(frame.g, SVG, "text", {});
			frame.text.setAttribute("y", Number(frame.rect.getAttribute("y")) + 12.5);
		}
		frame.text.textContent = text;
	}

	function place(frame, x, w) {
		frame.x = x;
		frame.w = w;
		if (w < 0.1) {
			frame.g.setAttribute("display", "none");
			return;
		}
		frame.g.removeAttribute("display");
		frame.rect.setAttribute("x", x.toFixed(1));
		frame.rect.setAttribute("width", (w > 2 ? w - 0.6 : w).toFixed(2));
		label(frame, w);
		if (frame.text)
			frame.text.setAttribute("x", (x + 3).toFixed(1));
	}

	function layout() {
		const room = width - 2 * MARGIN, scale = room / zoomed.count;
		for (const f of frames) {
			const isAbove = f.depth < zoomed.depth && f.start <= zoomed.start && f.start + f.count >= zoomed.start + zoomed.count;
			const isInside = f.start >= zoomed.start && f.start + f.count <= zoomed.start + zoomed.count && f.depth >= zoomed.depth;
			f.g.classList.toggle("past", isAbove);
			if (isAbove)
				place(f, MARGIN, room);
			else
				place(f, MARGIN + (f.start - zoomed.start) * scale, isInside ? f.count * scale : 0);
		}
		resetButton.hidden = zoomed === root;
		hideTip();
	}

	function zoom(frame) {
		zoomed = frame;
		layout();
	}

	function resize() {
		const wanted = fixedWidth > 0 ? fixedWidth : Math.max(320, document.documentElement.clientWidth || window.innerWidth);
		if (wanted === width)
			return;
		width = wanted;
		const height = svg.getAttribute("height");
		svg.setAttribute("width", width);
		svg.setAttribute("viewBox", "0 0 " + width + " " + height);
		back.setAttribute("width", width);
		headBack.setAttribute("width", width);
		bar.setAttribute("x", width - MARGIN - bar.getAttribute("width"));
		layout();
	}

	// ---- the tip beside the pointer
	const tip = element(svg, SVG, "g", { class: "tip", display: "none" });

	function hideTip() {
		tip.setAttribute("display", "none");
	}

	function wrapped(name, columns) {
		const lines = [];
		for (let letters = Array.from(name); letters.length > 0 && lines.length < 8; letters = letters.slice(columns))
			lines.push(letters.slice(0, columns).join("") + (lines.length === 7 && letters.length > columns ? "\u2026" : ""));
		return lines;
	}

	function facts(frame) {
		const lines = [counted(frame.count) + "  \u00b7  " + percent(frame.count, total) + " of all"];
		if (frame.parent && frame.parent !== root)
			lines[0] += "  \u00b7  " + percent(frame.count, frame.parent.count) + " of its parent";
		if (zoomed !== root && frame !== zoomed && frame.depth > zoomed.depth)
			lines[0] += "  \u00b7  " + percent(frame.count, zoomed.count) + " of what is shown";
		if (frame.self > 0 && frame.self < frame.count)
			lines.push("itself " + counted(frame.self) + "  \u00b7  " + percent(frame.self, total));
		if (frame.samples > 0) // where they weigh unlike
			lines.push(frame.samples.toLocaleString("en-US") + (frame.samples === 1 ? " sample" : " samples"));
		const kinds = frame.g.classList;
		const kind = kinds.contains("k") ? "kernel" : kinds.contains("i") ? "inlined" : kinds.contains("t") ? "the stack is not known beyond this" : "";
		if (kind !== "")
			lines.push(kind);
		return lines;
	}

	function showTip(frame, x, y) {
		tip.textContent = "";
		const box = element(tip, SVG, "rect", { rx: 6 });
		const columns = Math.max(20, Math.min(90, Math.floor((width - 60) / COLUMN)));
		let at = 18;
		for (const line of wrapped(frame.name, columns)) {
			element(tip, SVG, "text", { x: 10, y: at }).textContent = line;
			at += 16;
		}
		for (const line of facts(frame)) {
			element(tip, SVG, "text", { x: 10, y: at + 2, class: "fact" }).textContent = line;
			at += 16;
		}
		tip.removeAttribute("display");
		let w = 0;
		for (const text of tip.querySelectorAll("text"))
			w = Math.max(w, text.getComputedTextLength());
		box.setAttribute("width", w + 20);
		box.setAttribute("height", at);
		const top = window.scrollY, bottom = top + window.innerHeight;
		const left = Math.max(4, Math.min(x + 14, width - w - 28));
		const below = y + 18 + at < bottom ? y + 18 : Math.max(top + 4, y - at - 10);
		tip.setAttribute("transform", "translate(" + left.toFixed(1) + "," + below.toFixed(1) + ")");
	}

	function frameOf(event) {
		const g = event.target.closest ? event.target.closest("g.f") : null;
		return g ? g.frame : null;
	}

	function pointer(event) {
		const box = svg.getBoundingClientRect();
		return [event.clientX - box.left, event.clientY - box.top];
	}

	svg.addEventListener("mousemove", event => {
		const frame = frameOf(event);
		if (frame)
			showTip(frame, ...pointer(event));
		else if (!current) // else the tip belongs to the frame that the keys chose
			hideTip();
	});
	svg.addEventListener("mouseleave", () => current || hideTip());
	svg.addEventListener("click", event => {
		const frame = frameOf(event);
		if (!frame)
			return;
		select(null);
		zoom(frame);
	});

	// ---- search
	const bar = element(head, SVG, "foreignObject", { y: 8, width: 440, height: 32 });
	const row = element(bar, XHTML, "div", { class: "bar" });
	const share = element(row, XHTML, "span", { class: "share", role: "status" });
	const resetButton = element(row, XHTML, "button", { type: "button", title: "Show everything again (Esc)" });
	resetButton.textContent = "Reset zoom";
	resetButton.hidden = true;
	const input = element(row, XHTML, "input", {
		type: "search", placeholder: "Search (press /)", "aria-label": "Search", spellcheck: "false", autocomplete: "off",
		title: "Part of a name, or /regular expression/",
	});

	function matcher(term) {
		if (term.length > 2 && term.startsWith("/") && term.endsWith("/")) {
			const expression = new RegExp(term.slice(1, -1), "i");
			return name => expression.test(name);
		}
		const wanted = term.toLowerCase();
		return name => name.toLowerCase().includes(wanted);
	}

	function search(term) {
		svg.classList.toggle("seek", term !== "");
		share.classList.remove("bad");
		share.textContent = "";
		let matches;
		try {
			matches = term === "" ? () => false : matcher(term);
		} catch (error) {
			share.textContent = "not a regular expression";
			share.classList.add("bad");
			matches = () => false;
		}
		let sum = 0, end = -1;
		for (const f of frames) { // parents first: what stands inside a match is counted with it
			const isHit = f !== root && matches(f.name);
			f.g.classList.toggle("hit", isHit);
			if (isHit && f.start >= end) {
				sum += f.count;
				end = f.start + f.count;
			}
		}
		if (term !== "" && share.textContent === "")
			share.textContent = sum > 0 ? percent(sum, total) + " matched" : "no match";
	}

	input.addEventListener("input", () => search(input.value));
	resetButton.addEventListener("click", () => zoom(root));

	// ---- keys
	function select(frame) {
		if (current)
			current.g.classList.remove("at");
		current = frame;
		if (!frame)
			return;
		frame.g.classList.add("at");
		const y = Number(frame.rect.getAttribute("y"));
		const headHeight = Number(headBack.getAttribute("height"));
		if (y < window.scrollY + headHeight)
			window.scrollTo(0, y - headHeight - PITCH);
		else if (y + 2 * PITCH > window.scrollY + window.innerHeight)
			window.scrollTo(0, y + 3 * PITCH - window.innerHeight);
		showTip(frame, frame.x, y);
	}

	function widest(list) {
		return list.reduce((best, f) => f.w >= 0.1 && (!best || f.count > best.count) ? f : best, null);
	}

	function step(key) {
		if (!current)
			return zoomed;
		const isOutward = (key === "ArrowUp") !== isInverted;
		if (key === "ArrowUp" || key === "ArrowDown")
			return (isOutward ? widest(current.children) : current.parent) || current;
		const row = frames.filter(f => f.depth === current.depth && f.w >= 0.1);
		return row[row.indexOf(current) + (key === "ArrowLeft" ? -1 : 1)] || current;
	}

	document.addEventListener("keydown", event => {
		if (event.altKey || event.metaKey)
			return;
		if (event.key === "Escape") {
			if (input.value !== "") {
				input.value = "";
				search("");
			} else if (document.activeElement === input) {
				input.blur();
			} else if (current) {
				select(null);
				hideTip();
			} else {
				zoom(root);
			}
			return;
		}
		if (document.activeElement === input)
			return;
		if ((event.key === "/" && !event.ctrlKey) || (event.key === "f" && event.ctrlKey)) {
			input.focus();
			input.select();
		} else if (event.ctrlKey) {
			return;
		} else if (event.key.startsWith("Arrow")) {
			select(step(event.key));
		} else if (event.key === "Enter" && current) {
			zoom(current);
			select(current);
		} else if (event.key === "Home" || event.key === "0") {
			zoom(root);
		} else {
			return;
		}
		event.preventDefault();
	});

	// ---- the head stays in sight
	function stick() {
		head.setAttribute("transform", "translate(0," + Math.max(0, window.scrollY) + ")");
	}
	window.addEventListener("scroll", stick, { passive: true });
	window.addEventListener("resize", resize);
	svg.insertBefore(head, tip);
	resize();
	if (!isInverted)
		window.scrollTo(0, Number(svg.getAttribute("height")));
	stick();
})();
