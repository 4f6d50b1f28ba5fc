// Draws each graph of a page with uPlot, from the table of its figures. The axis from left to
// right counts the rows of that table, so that it has the server's times.
"use strict";
(() => {
	const plots = new Map(); // by box
	// A colour is known only where it is used: the values have one for light and one for dark.
	const colour = (name, of = document.body) => {
		const probe = of.appendChild(document.createElement("i"));
		probe.style.color = "var(" + name + ")";
		const {color} = getComputedStyle(probe);
		probe.remove();
		return color;
	};

	// read returns what a table holds; the values of bars are sums, the last one first.
	const read = (box) => {
		const table = document.getElementById(box.dataset.plot), rows = [...table.tBodies[0].rows];
		const heads = [...table.tHead.rows[0].cells].slice(1);
		const values = heads.map((_, i) => rows.map((r) => r.cells[i + 1].textContent === "" ? null : +r.cells[i + 1].textContent));
		const d = {heads, values, times: rows.map((r) => r.cells[0].textContent), drawn: values};
		if (box.dataset.kind === "bars") {
			let sum = rows.map(() => 0);
			d.drawn = values.map((v) => sum = sum.map((n, i) => n + v[i])).reverse();
			d.heads = heads.toReversed();
			d.values = values.toReversed();
		}
		d.all = [rows.map((_, i) => i), ...d.drawn];
		return d;
	};

	const options = (box, plot) => {
		const bars = box.dataset.kind === "bars", back = document.documentElement.dir === "rtl";
		const font = "12px " + getComputedStyle(document.body).fontFamily, stroke = colour("--dim"), line = {stroke: colour("--line"), width: 1};
		return {
			width: box.clientWidth, height: box.clientHeight, legend: {show: false},
			cursor: {y: false, points: {show: !bars}, drag: {x: false, y: false}},
			scales: {
				x: {time: false, dir: back ? -1 : 1, range: () => [-0.5, Math.max(plot.d.times.length, 2) - 0.5]},
				y: bars ? {range: (u, min, max) => uPlot.rangeNum(0, max || 1, 0.1, true)} : box.dataset.scale === "log" ? {distr: 3} : {range: (u, min, max) => uPlot.rangeNum(0, max || 1, 0.1, true)},
			},
			axes: [
				{stroke, font, grid: {show: false}, ticks: line, incrs: [1, 5, 10, 15, 30], values: (u, at) => at.map((i) => plot.d.times[i] ?? "")},
				{stroke, font, grid: line, ticks: line, side: back ? 1 : 3, size: 44},
			],
			series: [{}, ...plot.d.heads.map((h) => bars
				? {fill: colour("--c", h), width: 0, points: {show: false}, paths: uPlot.paths.bars({size: [0.8, 40]})}
				: {stroke: colour("--c", h), width: 2, spanGaps: true, points: {show: true, size: 4}})],
			hooks: {setCursor: [(u) => {
				const i = u.cursor.idx, {d} = plot;
				plot.said.textContent = i == null || !d.times[i] ? "" : [d.times[i], ...d.heads.map((h, k) => h.textContent + " " + (d.values[k][i] ?? "–")).reverse()].join(" · ");
			}]},
		};
	};

	const draw = (box, anew) => {
		const plot = plots.get(box) || {};
		const was = plot.d?.heads.length;
		plot.d = read(box);
		if (!anew && plot.u && was === plot.d.heads.length) { plot.u.setData(plot.d.all); return; }
		plot.u?.destroy();
		plot.said ||= box.appendChild(document.createElement("p"));
		plot.u = new uPlot(options(box, plot), plot.d.all, box);
		plots.set(box, plot);
	};

	const all = () => document.querySelectorAll("[data-plot]");
	const sized = new ResizeObserver((some) => some.forEach(({target}) => plots.get(target)?.u.setSize({width: target.clientWidth, height: target.clientHeight})));
	all().forEach((box) => { draw(box); sized.observe(box); });
	document.addEventListener("htmx:after:swap", () => all().forEach((box) => draw(box)));
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all().forEach((box) => draw(box, true)));
})();
