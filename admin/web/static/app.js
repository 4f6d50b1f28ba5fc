// What the admin pages do beyond links and forms. Every page works without.
"use strict";
(() => {
	const $ = (selector, from = document) => from.querySelector(selector);
	const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

	// On a phone a table becomes cards: each cell says which column it is of.
	const label = (from) => $$("table:not(.keep)", from).forEach((table) => {
		const names = $$("thead th", table).map((th) => th.textContent.trim());
		$$("tbody tr", table).forEach((tr) => [...tr.cells].forEach((td, i) => {
			if (names[i]) td.dataset.th = names[i];
		}));
	});
	label(document);

	// htmx puts what it fetches into the page. What it fetches again and again stays as it is
	// while nobody looks or somebody works in it, or when the answer lacks it.
	const on = (event, f) => document.addEventListener("htmx:" + event, (e) => f(e, e.detail.ctx, e.detail));
	const again = (ctx) => ctx.sourceEvent?.type === "every";
	on("before:request", (e, ctx) => {
		if (again(ctx) && (document.hidden || ctx.target.contains(document.activeElement))) e.preventDefault();
	});
	// The log stands still while somebody points into it or works in it. What is new waits in a bar.
	const rows = $("#rows"), bar = $("#held"), held = [];
	const reads = () => rows.matches(":hover") || rows.contains(document.activeElement) || bar.matches(":hover");
	const release = () => {
		if (!held.length) return;
		const fresh = held.splice(0).flatMap((part) => [...part.children]);
		fresh.forEach((row) => { rows.prepend(row); window.htmx.process(row); });
		bar.hidden = true;
		while (rows.rows.length > 300) rows.deleteRow(-1);
	};
	bar?.addEventListener("click", release);
	rows?.addEventListener("mouseleave", () => setTimeout(() => { if (!reads()) release(); }, 300));
	rows?.addEventListener("focusout", () => setTimeout(() => { if (!reads()) release(); }, 300));
	const panel = $("#panel");
	const closePanel = () => panel.replaceChildren();
	panel?.addEventListener("click", (e) => { if (e.target.closest("[data-close]")) closePanel(); });
	panel?.addEventListener("keydown", (e) => { if (e.key === "Escape") closePanel(); });

	on("before:swap", (e, ctx, {tasks}) => {
		if (rows && ctx.target === rows && reads()) {
			tasks.forEach((t) => { if (t.fragment) held.push(t.fragment); });
			$("#held-n").textContent = held.reduce((n, part) => n + part.children.length, 0);
			bar.hidden = false;
			e.preventDefault();
			return;
		}
		if (again(ctx) && !tasks[0]?.fragment.firstElementChild) e.preventDefault();
		ctx.done = tasks.some((t) => t.target?.id === "said" && t.fragment.textContent.trim());
	});
	on("after:swap", (e, ctx) => {
		const {target} = ctx;
		if (target.id === "rows") {
			$("#none")?.remove();
			while (target.rows.length > 300) target.deleteRow(-1);
			return;
		}
		label(document);
		const words = ctx.sourceElement;
		if (words?.matches?.("[data-ask]")) { words.closest(".palette").dataset.of = words.value; return; }
		if (target === panel) { panel.focus({preventScroll: true}); return; }
		if (target !== asked) return;
		if (ctx.done || !asked.firstElementChild) { asked.close(); return; }
		if (!asked.open) asked.showModal();
		$("#make, input", asked)?.focus();
	});
	// The page gives way to the one for signing in when its session has ended.
	on("sse:error", (e, ctx, {status}) => { if (status === 401) location.reload(); });
	// A link that is opened in another tab is the browser's.
	document.addEventListener("click", (e) => {
		if ((e.ctrlKey || e.metaKey || e.shiftKey) && e.target.closest("a[hx-boost]")) e.stopPropagation();
	}, true);

	const asked = $("#asked");
	asked?.addEventListener("click", (e) => {
		if (!e.target.closest("[data-close]")) return;
		e.preventDefault();
		asked.close();
	});
	asked?.addEventListener("close", () => asked.replaceChildren());

	// The page that somebody is on is in sight among the links of a phone.
	$(".side [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});

	// The editor of the settings: numbers beside the lines, two spaces for Tab.
	const text = $(".editor textarea"), numbers = $(".editor pre");
	if (text) {
		const bad = new Set((numbers.dataset.bad || "").split(" "));
		const count = () => {
			const n = text.value.split("\n").length;
			numbers.replaceChildren(...Array.from({length: n}, (_, i) => {
				const line = document.createElement(bad.has(String(i + 1)) ? "b" : "span");
				line.textContent = i + 1 + "\n";
				return line;
			}));
			numbers.scrollTop = text.scrollTop;
		};
		const go = (line) => {
			const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
			text.focus();
			text.setSelectionRange(before, before);
			text.scrollTop = (line - 6) * text.scrollHeight / text.value.split("\n").length;
		};
		text.addEventListener("input", () => { bad.clear(); count(); });
		text.addEventListener("scroll", () => { numbers.scrollTop = text.scrollTop; });
		// Escape leaves the editor, so that Tab traps nobody.
		text.addEventListener("keydown", (e) => {
			if (e.key === "Escape") $("button[value=check]")?.focus();
			if (e.key !== "Tab" || e.shiftKey) return;
			e.preventDefault();
			text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
		});
		$$("[data-line]").forEach((a) => a.addEventListener("click", (e) => { e.preventDefault(); go(+a.dataset.line); }));
		count();

		// What is wrong is said at its line while somebody writes.
		const wrong = $("#mistakes");
		let asking = false, waiting = 0;
		const check = async () => {
			if (asking) { later(); return; }
			asking = true;
			const asked = text.value;
			try {
				const r = await fetch("/settings/check", {method: "POST", body: new URLSearchParams({text: asked})});
				const {mistakes} = await r.json();
				if (text.value === asked) {
					bad.clear();
					wrong.replaceChildren(...mistakes.slice(0, 10).map((m) => {
						const item = document.createElement("li"), link = document.createElement("a");
						bad.add(String(m.Line));
						link.href = "#text";
						link.textContent = m.Line || "";
						link.addEventListener("click", (e) => { e.preventDefault(); go(m.Line); });
						item.append(link, " ", m.Key ? m.Key + ": " : "", m.Text);
						return item;
					}));
					wrong.hidden = !mistakes.length;
					count();
				}
			} catch { /* the gateway starts again: what is saved is checked anyway */ }
			asking = false;
		};
		const later = () => { clearTimeout(waiting); waiting = setTimeout(check, 900); };
		text.addEventListener("input", later);

		// Keys that the schema has at the place of the cursor.
		const hints = $("#hints");
		let schema;
		const forms = (s) => !s ? [] : s.$ref ? forms(s.$ref.split("/").slice(1).reduce((x, k) => x?.[k], schema)) : [s, ...(s.anyOf || s.oneOf || []).flatMap(forms)];
		const inside = (all, key) => all.flatMap((s) => key === "-" ? forms(s.items) : forms(s.properties?.[key] ?? (typeof s.additionalProperties === "object" ? s.additionalProperties : null)));
		// place returns the keys above the cursor, "-" for an entry of a list, and what
		// is written of the key it is at; null where no key can be.
		const place = () => {
			const lines = text.value.slice(0, text.selectionStart).split("\n");
			const begun = /^( *(?:- +)*)([\w-]*)$/.exec(lines.pop());
			if (!begun) return null;
			const path = [];
			let depth = begun[1].length;
			const entries = (lead) => { for (let i = lead.lastIndexOf("-"); i >= 0; i = i ? lead.lastIndexOf("-", i - 1) : -1) { path.unshift("-"); depth = i; } };
			entries(begun[1]);
			while (depth > 0 && lines.length) {
				const m = /^( *)((?:- +)*)([\w.-]+):/.exec(lines.pop());
				if (!m) continue;
				const lead = m[1] + m[2];
				if (lead.length < depth || path[0] === "-" && lead.length === depth && !m[2]) {
					path.unshift(m[3]);
					depth = lead.length;
				} else if (lead.length > depth || !m[2]) continue;
				if (m[2]) entries(lead);
			}
			return {path, word: begun[2], indent: begun[1].replace(/-/g, " ")};
		};
		const complete = (word, key) => { text.focus(); text.setRangeText(key + ": ", text.selectionStart - word.length, text.selectionStart, "end"); text.dispatchEvent(new Event("input")); };
		const hint = () => {
			const at = schema && place();
			let all = at ? at.path.reduce(inside, forms(schema)) : [];
			const keys = [...new Set(all.flatMap((s) => Object.keys(s.properties || {})))].filter((k) => k.startsWith(at.word) && k !== at.word).sort();
			while (hints.children.length > 1) hints.lastChild.remove();
			hints.append(...keys.slice(0, 40).map((k) => {
				const button = document.createElement("button");
				button.type = "button";
				button.textContent = k;
				button.addEventListener("click", () => complete(at.word, k));
				return button;
			}));
			hints.hidden = !keys.length;
			return keys.length ? {word: at.word, key: keys[0]} : null;
		};
		text.addEventListener("focus", async () => {
			if (schema === undefined) {
				schema = null;
				try { schema = await (await fetch("/settings/schema")).json(); } catch { /* without hints */ }
				hint();
			}
		});
		for (const on of ["input", "click", "keyup"]) text.addEventListener(on, hint);
		text.addEventListener("keydown", (e) => {
			if (e.key !== " " || !e.ctrlKey) return;
			e.preventDefault();
			const first = hint();
			if (first) complete(first.word, first.key);
		});
	}

	// What can be chosen is found by a part of its name; a slider moves with the number beside it.
	$$("[data-search]").forEach((field) => {
		field.hidden = false;
		field.addEventListener("input", () => $$("label", $(field.dataset.search)).forEach((l) => {
			l.hidden = !l.textContent.toLowerCase().includes(field.value.trim().toLowerCase()) && !$("input", l).checked;
		}));
	});
	$$("[data-slider]").forEach((slider) => {
		const number = slider.form.elements[slider.dataset.slider];
		slider.hidden = false;
		slider.addEventListener("input", () => { number.value = +slider.value || ""; });
		number.addEventListener("input", () => { slider.value = number.value || 0; });
	});

	// Rules change places by their handles: with the pointer, or with the arrow keys.
	const order = $("[data-order]");
	if (order) {
		order.classList.add("drag");
		const grips = $$(".grip", order), own = grips.map((g) => g.closest("li"));
		const move = (form, to) => {
			const field = document.createElement("input");
			Object.assign(field, {type: "hidden", name: "to", value: to});
			form.append(field);
			form.requestSubmit();
		};
		grips.forEach((grip, at) => {
			const li = own[at];
			grip.hidden = false;
			grip.addEventListener("keydown", (e) => {
				const to = at + {ArrowUp: -1, ArrowDown: 1}[e.key];
				if (!own[to]) return;
				e.preventDefault();
				move(grip.form, to);
			});
			grip.addEventListener("pointerdown", (e) => {
				if (e.button) return;
				grip.setPointerCapture(e.pointerId);
				li.classList.add("moving");
				grip.onpointermove = (e) => {
					const over = own.find((x) => x !== li && e.clientY > x.getBoundingClientRect().top && e.clientY < x.getBoundingClientRect().bottom);
					if (over) over[over.compareDocumentPosition(li) & Node.DOCUMENT_POSITION_FOLLOWING ? "before" : "after"](li);
				};
				grip.onlostpointercapture = () => {
					grip.onpointermove = grip.onlostpointercapture = null;
					li.classList.remove("moving");
					const to = $$(".grip", order).indexOf(grip);
					if (to !== at) move(grip.form, to);
				};
			});
		});
	}

	// The week is painted: each half hour is a cell. The same times are in the fields below it.
	const week = $("[data-week]");
	if (week) {
		const rows = $(week.dataset.week), day = 1440, slot = matchMedia("(max-width: 44rem)").matches ? 60 : 30;
		const days = $$("fieldset:last-child label", rows).map((l) => l.textContent.trim());
		const clock = (m) => String(Math.floor(m / 60) % 24).padStart(2, "0") + ":" + String(m % 60).padStart(2, "0");
		const minutes = (s) => s.split(":").reduce((h, m) => h * 60 + +m, 0);
		let on; // by day and minute
		const read = () => {
			on = days.map(() => new Uint8Array(day));
			$$("fieldset:not([data-keep])", rows).forEach((row) => {
				const [from, until] = $$("input[type=time]", row).map((x) => x.value);
				const chosen = $$("input:checked", row).map((x) => +x.value);
				if (!chosen.length && !from && !until) return;
				const begin = from ? minutes(from) : 0, end = (until && minutes(until)) || day;
				(chosen.length ? chosen : days.map((_, d) => d)).forEach((d) => {
					on[d].fill(1, begin, end > begin ? end : day);
					if (end <= begin) on[(d + 1) % 7].fill(1, 0, end);
				});
			});
		};
		// write puts the fewest rows for what is painted into the fields: a time for all its days. What goes on
		// after midnight is one time.
		const write = () => {
			const all = on.map((of) => {
				const spans = [];
				for (let m = 0; m < day; m++) if (of[m] && !of[m - 1]) spans.push([m, of.indexOf(0, m) < 0 ? day : of.indexOf(0, m)]);
				return spans;
			});
			all.forEach((spans, d) => {
				const last = spans.at(-1), next = all[(d + 1) % 7];
				if (last?.[1] === day && last[0] > 0 && next[0]?.[0] === 0 && next[0][1] <= last[0]) last[1] = next.shift()[1];
			});
			const times = new Map();
			all.forEach((spans, d) => spans.forEach(([from, until]) => {
				const key = from + "-" + until;
				times.set(key, [...(times.get(key) || []), d]);
			}));
			const empty = $("fieldset:last-child", rows).cloneNode(true);
			$$("fieldset:not([data-keep])", rows).forEach((row) => row.remove());
			let n = rows.children.length;
			const add = (of, from, until) => {
				const row = empty.cloneNode(true);
				$$("[name]", row).forEach((x) => { x.name = x.name.replace(/\d+$/, n); });
				n++;
				$$("input[type=checkbox]", row).forEach((x, d) => { x.checked = of.includes(d); });
				const whole = from === 0 && until === day;
				$$("input[type=time]", row).forEach((x, i) => { x.value = !of.length || whole ? "" : clock(i ? until : from); });
				rows.append(row);
			};
			$$("fieldset[data-keep]", rows).forEach((row, i) => $$("[name]", row).forEach((x) => { x.name = x.name.replace(/\d+$/, i); }));
			times.forEach((of, key) => add(of, ...key.split("-").map(Number)));
			add([], 0, day);
			rows.dispatchEvent(new Event("input", {bubbles: true}));
		};

		const table = document.createElement("table");
		table.className = "paint keep";
		table.setAttribute("role", "grid");
		table.setAttribute("aria-label", rows.closest("section").querySelector("h2").textContent);
		const head = table.createTHead().insertRow();
		head.append(document.createElement("td"));
		for (let h = 0; h < 24; h += 3) head.append(Object.assign(document.createElement("th"), {colSpan: 180 / slot, scope: "colgroup", textContent: h + ":00"}));
		const cells = days.map((name, d) => {
			const row = table.createTBody().insertRow();
			row.append(Object.assign(document.createElement("th"), {scope: "row", textContent: name}));
			return Array.from({length: day / slot}, (_, i) => {
				const cell = row.insertCell();
				Object.assign(cell, {tabIndex: d || i ? -1 : 0, at: [d, i]});
				cell.setAttribute("role", "gridcell");
				cell.setAttribute("aria-label", name + " " + clock(i * slot));
				return cell;
			});
		});
		const draw = () => cells.forEach((row, d) => row.forEach((cell, i) => {
			const part = on[d].slice(i * slot, (i + 1) * slot), n = part.reduce((a, b) => a + b, 0);
			cell.className = n === slot ? "on" : n ? "half" : "";
			cell.setAttribute("aria-selected", n === slot);
		}));
		const paint = (a, b, value) => {
			for (let d = Math.min(a[0], b[0]); d <= Math.max(a[0], b[0]); d++) on[d].fill(value, Math.min(a[1], b[1]) * slot, (Math.max(a[1], b[1]) + 1) * slot);
		};
		table.addEventListener("pointerdown", (e) => {
			const from = e.target.at;
			if (!from || e.button) return;
			e.preventDefault();
			e.target.focus();
			const before = on.map((of) => of.slice()), value = e.target.className === "on" ? 0 : 1;
			const to = (at) => { on = before.map((of) => of.slice()); paint(from, at, value); draw(); };
			to(from);
			table.setPointerCapture(e.pointerId);
			table.onpointermove = (e) => { const at = document.elementFromPoint(e.clientX, e.clientY)?.at; if (at) to(at); };
			table.onlostpointercapture = () => { table.onpointermove = table.onlostpointercapture = null; write(); };
		});
		let anchor = null; // where somebody has begun to paint with the arrow keys
		table.addEventListener("keydown", (e) => {
			const at = e.target.at, step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key];
			if (!at) return;
			if (e.key === " " || e.key === "Enter") paint(at, at, e.target.className === "on" ? 0 : 1);
			else if (!step) return;
			e.preventDefault();
			const next = step && cells[at[0] + step[0]]?.[at[1] + step[1]];
			if (!step || !e.shiftKey) anchor = null;
			if (next) {
				if (e.shiftKey) {
					anchor ||= {at, on: on.map((of) => of.slice())};
					on = anchor.on.map((of) => of.slice());
					paint(anchor.at, next.at, 1);
				}
				e.target.tabIndex = -1;
				next.tabIndex = 0;
				next.focus();
			}
			if (step && !e.shiftKey) return;
			draw();
			write();
		});
		rows.addEventListener("change", () => { read(); draw(); });
		read();
		draw();
		week.append(table);
		week.hidden = $("#paint").hidden = false;
	}

	// Ctrl K, or the field at the top of the menu, finds and does. Arrow keys choose an offer, Enter takes
	// it; without one, Enter opens the page of all offers.
	const finder = $("#find");
	const ask = () => { if (!finder || finder.open) return; finder.showModal(); $("[data-ask]", finder).select(); };
	document.addEventListener("keydown", (e) => {
		if (e.key.toLowerCase() === "k" && (e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey) { e.preventDefault(); ask(); }
	});
	document.addEventListener("click", (e) => {
		if (!e.target.closest("[data-find]") || e.ctrlKey || e.metaKey || e.shiftKey || !finder) return;
		e.preventDefault();
		ask();
	});
	finder?.addEventListener("click", (e) => { if (e.target === finder) finder.close(); });
	document.addEventListener("keydown", (e) => {
		const box = e.target.closest?.(".palette");
		if (!box || !["ArrowDown", "ArrowUp"].includes(e.key)) return;
		const offers = $$("#found a, #found button", box), field = $("[data-ask]", box);
		const at = offers.indexOf(document.activeElement) + (e.key === "ArrowDown" ? 1 : -1);
		e.preventDefault();
		(at < 0 ? field : offers[Math.min(at, offers.length - 1)] ?? field).focus();
	});
	document.addEventListener("submit", (e) => {
		// The first offer is what was asked for, once the offers are those of the words.
		const field = $("[data-ask]", e.target), first = field && $("#found a, #found button", field.closest(".palette"));
		if (!first || field.closest(".palette").dataset.of !== field.value) return;
		e.preventDefault();
		first.focus();
	});

	// A form is sent once; the button says that it works.
	$$("form[method=post]").forEach((form) => form.addEventListener("submit", (e) => {
		if (form.dataset.sent) { e.preventDefault(); return; }
		form.dataset.sent = "yes";
		form.setAttribute("aria-busy", "true");
		form.dispatchEvent(new Event("sending")); // htmx would stop the form by its trigger "submit"
	}));
	addEventListener("pageshow", () => $$("form[data-sent]").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); }));
})();
