/// matcher returns a function that says whether a text has s in it: "text",
/// "!text" for the opposite, "/expression/flags", or nothing for any text.
function matcher(s) {
	if (s === undefined || s === "" || s === "*") {
		return () => true;
	}
	const not = s[0] === "!";
	if (not) {
		s = s.slice(1);
	}
	const m = /^\/(.+)\/([imsu]*)$/.exec(s);
	if (m) {
		const re = new RegExp(m[1], m[2]);
		return text => re.test(text) !== not;
	}
	return text => text.includes(s) !== not;
}

/// hook calls found with the object and the name at the end of a chain of
/// names, "a.b.c", when the objects on the way are there.
function hook(chain, found) {
	const names = chain.split(".");
	const walk = (object, i) => {
		const name = names[i];
		if (i === names.length - 1) {
			found(object, name);
			return;
		}
		let value = object[name];
		if (value !== null && (typeof value === "object" || typeof value === "function")) {
			walk(value, i + 1);
			return;
		}
		Object.defineProperty(object, name, {
			configurable: true,
			enumerable: true,
			get: () => value,
			set: x => {
				value = x;
				if (x !== null && (typeof x === "object" || typeof x === "function")) {
					walk(x, i + 1);
				}
			},
		});
	};
	walk(window, 0);
}

/// aborter returns a function that ends the script that calls it, without a
/// trace in the page's own reports of errors.
function aborter() {
	const mark = Math.random().toString(36).slice(2);
	window.addEventListener("error", e => {
		if (e.error instanceof ReferenceError && e.error.message === mark) {
			e.preventDefault();
			e.stopImmediatePropagation();
		}
	}, true);
	return () => {
		throw new ReferenceError(mark);
	};
}

/// wrap puts a function in the place of that called name.
function wrap(object, name, by) {
	const own = object[name];
	if (typeof own === "function") {
		object[name] = new Proxy(own, { apply: (own, self, args) => by(own, self, args) });
	}
}

/// whenThere calls what when the page changes and when it is complete.
function whenThere(what) {
	const begin = () => {
		what();
		new MutationObserver(what).observe(document.documentElement, { attributes: true, childList: true, subtree: true });
	};
	if (document.readyState === "loading") {
		document.addEventListener("DOMContentLoaded", begin);
	} else {
		begin();
	}
}

/// timers lets only those timers be set whose function is not meant.
function timers(name, text, delay) {
	const meant = matcher(text);
	wrap(window, name, (own, self, args) => {
		const is = meant(String(args[0])) && (delay === undefined || delay === "" || Number(delay) === Number(args[1]));
		return Reflect.apply(own, self, is ? [() => {}, ...args.slice(1)] : args);
	});
}

/// faster makes timers of the function meant run sooner or later.
function faster(name, text, delay, factor) {
	const meant = matcher(text);
	const by = Math.min(Math.max(Number(factor) || 0.05, 0.001), 50);
	wrap(window, name, (own, self, args) => {
		const is = meant(String(args[0])) && (delay === "*" || Number(args[1]) === (Number(delay) || 1000));
		return Reflect.apply(own, self, is ? [args[0], Number(args[1]) * by, ...args.slice(2)] : args);
	});
}

//! abort-on-property-read aopr 1 1
chain => {
	const abort = aborter();
	hook(chain, (object, name) => Object.defineProperty(object, name, { get: abort, set: () => {} }));
}

//! abort-on-property-write aopw 1 1
chain => {
	const abort = aborter();
	hook(chain, (object, name) => {
		const value = object[name];
		Object.defineProperty(object, name, { get: () => value, set: abort });
	});
}

//! abort-current-script acs abort-current-inline-script acis 1 2
(chain, text) => {
	const abort = aborter();
	const meant = matcher(text);
	const us = document.currentScript;
	hook(chain, (object, name) => {
		let value = object[name];
		const look = () => {
			const script = document.currentScript;
			if (script && script !== us && !script.src && meant(script.textContent)) {
				abort();
			}
		};
		Object.defineProperty(object, name, {
			configurable: true,
			get: () => {
				look();
				return value;
			},
			set: x => {
				look();
				value = x;
			},
		});
	});
}

//! set-constant set 2 2
(chain, text) => {
	const constants = {
		"undefined": undefined, "null": null, "true": true, "false": false, "": "", "''": "", "emptyStr": "", "yes": "yes", "no": "no", "NaN": NaN,
		"noopFunc": () => {}, "trueFunc": () => true, "falseFunc": () => false, "throwFunc": () => {
			throw new Error();
		},
		"emptyArr": [], "[]": [], "emptyObj": {}, "{}": {}, "noopPromiseResolve": () => Promise.resolve(new Response()), "noopPromiseReject": () => Promise.reject(),
	};
	let value = constants[text];
	if (!Object.hasOwn(constants, text)) {
		value = Number(text);
		if (!Number.isInteger(value) || Math.abs(value) > 0x7fff) {
			return;
		}
	}
	hook(chain, (object, name) => Object.defineProperty(object, name, { configurable: true, enumerable: true, get: () => value, set: () => {} }));
}

//! prevent-setTimeout nostif no-setTimeout-if setTimeout-defuser 0 2
(text, delay) => timers("setTimeout", text, delay)

//! prevent-setInterval nosiif no-setInterval-if setInterval-defuser 0 2
(text, delay) => timers("setInterval", text, delay)

//! adjust-setTimeout nano-setTimeout-booster nano-stb 0 3
(text, delay, factor) => faster("setTimeout", text, delay, factor)

//! adjust-setInterval nano-setInterval-booster nano-sib 0 3
(text, delay, factor) => faster("setInterval", text, delay, factor)

//! prevent-addEventListener aeld addEventListener-defuser 0 2
(type, text) => {
	const types = matcher(type);
	const meant = matcher(text);
	wrap(EventTarget.prototype, "addEventListener", (own, self, args) => {
		if (!types(String(args[0])) || !meant(String(args[1]))) {
			return Reflect.apply(own, self, args);
		}
	});
}

//! prevent-fetch no-fetch-if 0 1
text => {
	const meant = matcher(text.replace(/^url:/, ""));
	wrap(window, "fetch", (own, self, args) => {
		const url = args[0] instanceof Request ? args[0].url : String(args[0]);
		return meant(url) ? Promise.resolve(new Response("")) : Reflect.apply(own, self, args);
	});
}

//! prevent-xhr no-xhr-if 0 1
text => {
	const meant = matcher(text.replace(/^url:/, ""));
	const ours = new WeakSet();
	wrap(XMLHttpRequest.prototype, "open", (own, self, args) => {
		if (meant(String(args[1]))) {
			ours.add(self);
			args = [args[0], "data:text/plain,", true];
		}
		return Reflect.apply(own, self, args);
	});
	wrap(XMLHttpRequest.prototype, "setRequestHeader", (own, self, args) => ours.has(self) ? undefined : Reflect.apply(own, self, args));
}

//! prevent-window-open nowoif no-window-open-if window.open-defuser 0 1
text => {
	const meant = matcher(text === "1" || text === "0" ? "" : text);
	wrap(window, "open", (own, self, args) => meant(String(args[0])) ? null : Reflect.apply(own, self, args));
}

//! noeval prevent-eval 0 0
() => {
	window.eval = () => {};
}

//! noeval-if prevent-eval-if 1 1
text => {
	const meant = matcher(text);
	wrap(window, "eval", (own, self, args) => meant(String(args[0])) ? undefined : Reflect.apply(own, self, args));
}

//! remove-attr ra 1 3
(names, selector) => {
	const all = names.split(/\s*\|\s*/);
	whenThere(() => {
		for (const name of all) {
			document.querySelectorAll(selector || "[" + CSS.escape(name) + "]").forEach(e => e.removeAttribute(name));
		}
	});
}

//! remove-class rc 1 3
(names, selector) => {
	const all = names.split(/\s*\|\s*/);
	whenThere(() => document.querySelectorAll(selector || all.map(name => "." + CSS.escape(name)).join()).forEach(e => {
		if (all.some(name => e.classList.contains(name))) {
			e.classList.remove(...all);
		}
	}));
}

//! remove-cookie cookie-remover 0 1
text => {
	const meant = matcher(text);
	const remove = () => {
		for (const part of document.cookie.split(";")) {
			const name = part.split("=")[0].trim();
			if (!name || !meant(name)) {
				continue;
			}
			const parts = location.hostname.split(".");
			for (let i = 0; i < parts.length; i++) {
				for (const domain of ["", "; domain=" + parts.slice(i).join("."), "; domain=." + parts.slice(i).join(".")]) {
					document.cookie = name + "=" + domain + "; path=/; max-age=0";
				}
			}
		}
	};
	remove();
	window.addEventListener("beforeunload", remove);
}

//! json-prune 1 2
(paths, needed) => {
	const split = s => (s || "").split(/\s+/).filter(Boolean).map(path => path.split("."));
	const prune = (object, path, i, remove) => {
		if (object === null || typeof object !== "object") {
			return false;
		}
		const names = path[i] === "*" || path[i] === "[]" ? Object.keys(object) : [path[i]];
		let found = false;
		for (const name of names) {
			if (!Object.hasOwn(object, name)) {
				continue;
			}
			if (i < path.length - 1) {
				found = prune(object[name], path, i + 1, remove) || found;
				continue;
			}
			found = true;
			if (remove) {
				delete object[name];
			}
		}
		return found;
	};
	const drop = split(paths);
	const need = split(needed);
	const pruned = value => {
		if (need.every(path => prune(value, path, 0, false))) {
			drop.forEach(path => prune(value, path, 0, true));
		}
		return value;
	};
	wrap(JSON, "parse", (own, self, args) => pruned(Reflect.apply(own, self, args)));
	wrap(Response.prototype, "json", (own, self, args) => Reflect.apply(own, self, args).then(pruned));
}
