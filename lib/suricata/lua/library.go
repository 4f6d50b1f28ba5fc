package lua

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// restricted are the functions that Suricata's sandbox blocks.
var restricted = strings.Fields("pcall xpcall load loadstring loadfile dofile setmetatable getmetatable collectgarbage setfenv getfenv newproxy module")

// libraries adds the libraries that a script may use.
func (st *interpreter) libraries() {
	l := st.l
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath}} {
		l.Push(l.NewFunction(lib.open))
		l.Push(lua.LString(lib.name))
		l.Call(1, 0)
	}
	st.strings(l.GetGlobal("string").(*lua.LTable))
	st.tables(l.GetGlobal("table").(*lua.LTable))
	if !st.script.pool.limits.Restricted {
		for _, name := range append(slices.Clone(restricted), "io", "os", "package", "debug", "coroutine") {
			st.block(name)
		}
	}
	l.SetGlobal("print", l.NewFunction(func(*lua.LState) int { return 0 }))
	l.SetGlobal("warn", l.NewFunction(func(*lua.LState) int { return 0 }))
	l.SetGlobal(concat, l.NewFunction(func(l *lua.LState) int {
		a, b := l.Get(1), l.Get(2)
		if !joins(a) || !joins(b) {
			l.RaiseError("attempt to concatenate a %s value", a.Type())
		}
		x, y := a.String(), b.String()
		st.budget.take(l, len(x)+len(y))
		l.Push(lua.LString(x + y))
		return 1
	}))
	st.bits()
	st.operators()
	st.legacy()
	libs := map[string]func() *lua.LTable{
		"http": st.http, "tls": st.tls, "dns": st.dns, "ja3": st.ja3, "file": st.file, "flow": st.flow, "flowvar": st.flowvar,
		"flowint": st.flowint, "dataset": st.dataset, "rule": st.ruleLib, "base64": st.base64, "hashlib": st.hash, "hashing": st.hash,
		"log": st.log, "bytevar": st.bytevar, "packet": st.packet, "util": st.util, "config": st.util,
	}
	tables := map[string]*lua.LTable{}
	l.SetGlobal("require", l.NewFunction(func(l *lua.LState) int {
		if loaded := l.GetGlobal(l.CheckString(1)); slices.Contains(loadedLibraries, l.CheckString(1)) && loaded != lua.LNil {
			l.Push(loaded)
			return 1
		}
		name, ok := strings.CutPrefix(l.CheckString(1), "suricata.")
		f := libs[name]
		if !ok || f == nil {
			l.RaiseError("there is no library %q", l.CheckString(1))
		}
		if tables[name] == nil {
			tables[name] = f()
		}
		l.Push(tables[name])
		return 1
	}))
}

// loadedLibraries are those that scripts have without asking; many ask nevertheless, as for LuaJIT's bit.
var loadedLibraries = []string{"string", "table", "math", "bit", "utf8"}

func joins(v lua.LValue) bool { return v.Type() == lua.LTString || v.Type() == lua.LTNumber }

// block makes a function, or every function of a library, raise an error.
func (st *interpreter) block(name string) {
	l := st.l
	f := l.NewFunction(func(l *lua.LState) int {
		st.script.pool.Blocked.Add(1)
		l.RaiseError("%s is not allowed", name)
		return 0
	})
	l.SetGlobal(name, f)
}

// charge wraps a function of a library, so that its work with the given arguments is charged
// to the budget beforehand.
func (st *interpreter) charge(t *lua.LTable, name string, of func(l *lua.LState) (instructions, bytes int)) {
	f := t.RawGetString(name).(*lua.LFunction)
	t.RawSetString(name, st.l.NewFunction(func(l *lua.LState) int {
		n, size := of(l)
		st.budget.step(l, n)
		st.budget.take(l, size)
		return f.GFunction(l)
	}))
}

// values returns the number of values between two positions in a list of n.
func values(from, to, n int) int {
	if from < 0 {
		from += n + 1
	}
	if to < 0 {
		to += n + 1
	}
	return max(0, min(to, n)-max(from, 1)+1)
}

// tables limits the functions of the library table, and unpack.
func (st *interpreter) tables(t *lua.LTable) {
	st.charge(t, "sort", func(l *lua.LState) (int, int) {
		n := l.CheckTable(1).Len()
		return n * bits.Len(uint(n)), 0
	})
	for _, name := range []string{"insert", "remove", "getn", "maxn"} {
		st.charge(t, name, func(l *lua.LState) (int, int) {
			n := l.CheckTable(1).Len()
			if at, ok := l.Get(2).(lua.LNumber); ok && (name == "remove" || l.GetTop() > 2) {
				return values(int(at), n, n)/8 + 1, 0
			}
			return 1, 0
		})
	}
	st.charge(st.l.G.Global, "unpack", func(l *lua.LState) (int, int) {
		t := l.CheckTable(1)
		return max(0, l.OptInt(3, t.Len())-l.OptInt(2, 1)+1), 0
	})
	joined := t.RawGetString("concat").(*lua.LFunction)
	t.RawSetString("concat", st.l.NewFunction(func(l *lua.LState) int {
		list, sep := l.CheckTable(1), l.OptString(2, "")
		size := 0
		for i := 1; i <= list.Len(); i++ {
			size += len(list.RawGetInt(i).String()) + len(sep)
		}
		st.budget.take(l, size)
		return joined.GFunction(l)
	}))
}

// bits adds the libraries bit and utf8, for scripts written for other versions.
func (st *interpreter) bits() {
	l := st.l
	two := func(f func(a, b uint32) uint32) lua.LGFunction {
		return func(l *lua.LState) int {
			v := uint32(int64(l.CheckNumber(1)))
			for i := 2; i <= l.GetTop(); i++ {
				v = f(v, uint32(int64(l.CheckNumber(i))))
			}
			l.Push(lua.LNumber(int32(v)))
			return 1
		}
	}
	one := func(f func(a uint32) uint32) lua.LGFunction {
		return func(l *lua.LState) int {
			l.Push(lua.LNumber(int32(f(uint32(int64(l.CheckNumber(1)))))))
			return 1
		}
	}
	l.SetGlobal("bit", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"band": two(func(a, b uint32) uint32 { return a & b }), "bor": two(func(a, b uint32) uint32 { return a | b }),
		"bxor": two(func(a, b uint32) uint32 { return a ^ b }), "lshift": two(func(a, b uint32) uint32 { return a << (b & 31) }),
		"rshift": two(func(a, b uint32) uint32 { return a >> (b & 31) }), "rol": two(func(a, b uint32) uint32 { return bits.RotateLeft32(a, int(b)) }),
		"ror":     two(func(a, b uint32) uint32 { return bits.RotateLeft32(a, -int(b&31)) }),
		"arshift": two(func(a, b uint32) uint32 { return uint32(int32(a) >> (b & 31)) }),
		"bnot":    one(func(a uint32) uint32 { return ^a }),
		"bswap":   one(bits.ReverseBytes32),
		"tobit":   one(func(a uint32) uint32 { return a }),
		"tohex": func(l *lua.LState) int {
			n := l.OptInt(2, 8)
			format := "%08x"
			if n < 0 {
				format = "%08X"
			}
			s := fmt.Sprintf(format, uint32(int64(l.CheckNumber(1))))
			l.Push(lua.LString(s[8-min(max(n, -n), 8):]))
			return 1
		},
	}))
	l.SetGlobal("utf8", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"char": func(l *lua.LState) int {
			var out []byte
			for i := 1; i <= l.GetTop(); i++ {
				out = utf8.AppendRune(out, rune(l.CheckInt(i)))
			}
			l.Push(lua.LString(out))
			return 1
		},
		"len": func(l *lua.LState) int { l.Push(lua.LNumber(utf8.RuneCountInString(l.CheckString(1)))); return 1 },
		"codepoint": func(l *lua.LState) int {
			s := l.CheckString(1)
			i := l.OptInt(2, 1)
			if i < 1 || i > len(s) {
				return 0
			}
			r, _ := utf8.DecodeRuneInString(s[i-1:])
			l.Push(lua.LNumber(r))
			return 1
		},
	}))
}

// table makes a table of functions. Methods get the table as their first argument.
func (st *interpreter) table(fs map[string]lua.LGFunction) *lua.LTable {
	return st.l.SetFuncs(st.l.NewTable(), fs)
}

// text pushes a string, or nil and the reason why there is none.
func text(l *lua.LState, v []byte, ok bool) int {
	if !ok {
		l.Push(lua.LNil)
		l.Push(lua.LString("not there"))
		return 2
	}
	l.Push(lua.LString(v))
	return 1
}

// buffer makes a function that returns a buffer.
func (st *interpreter) buffer(dir rule.Direction, b rule.Buffer) lua.LGFunction {
	return func(l *lua.LState) int {
		if st.tx == nil {
			return text(l, nil, false)
		}
		d := dir
		if d == rule.Both {
			d = st.dir
		}
		v, ok := st.tx.Buffer(d, b, 0)
		return text(l, v, ok)
	}
}

// source returns the source without its wrappers.
func (st *interpreter) source() engine.Source {
	if st.tx == nil {
		return nil
	}
	s := st.tx.Source
	for {
		w, ok := s.(interface{ Unwrap() engine.Source })
		if !ok {
			return s
		}
		s = w.Unwrap()
	}
}

// exchange returns the exchange that a script is asked about, or nil if it is about none. The
// gateway wraps it.
func (st *interpreter) exchange() *traffic.HTTP {
	if h, ok := st.source().(interface{ Exchange() *traffic.HTTP }); ok {
		return h.Exchange()
	}
	return nil
}

// header makes a function that returns a field by name.
func (st *interpreter) header(side, arg int) lua.LGFunction {
	return func(l *lua.LState) int {
		h := st.exchange()
		if h == nil {
			return text(l, nil, false)
		}
		v, ok := h.Sides[side].Get(l.CheckString(arg))
		return text(l, v, ok)
	}
}

func (st *interpreter) headers(side int) lua.LGFunction {
	return func(l *lua.LState) int {
		h := st.exchange()
		if h == nil {
			return text(l, nil, false)
		}
		t := l.NewTable()
		for _, x := range h.Sides[side].Headers {
			t.RawSetString(string(x.Name), lua.LString(x.Value))
		}
		l.Push(t)
		return 1
	}
}

func (st *interpreter) bodies(dir rule.Direction, b rule.Buffer) lua.LGFunction {
	return func(l *lua.LState) int {
		if st.tx == nil {
			return text(l, nil, false)
		}
		v, ok := st.tx.Buffer(dir, b, 0)
		if !ok {
			return text(l, nil, false)
		}
		t := l.NewTable()
		t.Append(lua.LString(v))
		l.Push(t)
		l.Push(lua.LNumber(0))
		l.Push(lua.LNumber(len(v)))
		return 3
	}
}

func (st *interpreter) http() *lua.LTable {
	tx := st.table(map[string]lua.LGFunction{
		"request_line": st.buffer(rule.ToServer, rule.RequestLine), "response_line": st.buffer(rule.ToClient, rule.ResponseLine),
		"request_header": st.header(0, 2), "response_header": st.header(1, 2), "request_headers": st.headers(0), "response_headers": st.headers(1),
		"request_headers_raw": st.buffer(rule.ToServer, rule.HeaderRaw), "response_headers_raw": st.buffer(rule.ToClient, rule.HeaderRaw),
		"request_uri_raw": st.buffer(rule.ToServer, rule.URIRaw), "request_uri_normalized": st.buffer(rule.ToServer, rule.URI),
		"request_body": st.bodies(rule.ToServer, rule.RequestBody), "response_body": st.bodies(rule.ToClient, rule.ResponseBody),
		"request_host": st.buffer(rule.ToServer, rule.Host),
	})
	return st.getter(tx)
}

// getter makes a library whose get_tx returns tx.
func (st *interpreter) getter(tx *lua.LTable) *lua.LTable {
	return st.table(map[string]lua.LGFunction{
		"get_tx":     func(l *lua.LState) int { l.Push(tx); return 1 },
		"enable_ja3": func(*lua.LState) int { return 0 },
	})
}

func (st *interpreter) ja3() *lua.LTable {
	return st.getter(st.table(map[string]lua.LGFunction{
		"ja3_get_hash": st.buffer(rule.ToServer, rule.JA3Hash), "ja3_get_string": st.buffer(rule.ToServer, rule.JA3String),
		"ja3s_get_hash": st.buffer(rule.ToClient, rule.JA3SHash), "ja3s_get_string": st.buffer(rule.ToClient, rule.JA3SString),
	}))
}

func (st *interpreter) tls() *lua.LTable {
	hello := func(f func(l *lua.LState, t *traffic.TLSHandshake) int) lua.LGFunction {
		return func(l *lua.LState) int {
			t, ok := st.source().(*traffic.TLSHandshake)
			if !ok {
				return text(l, nil, false)
			}
			return f(l, t)
		}
	}
	cert := func(side int) lua.LGFunction {
		return hello(func(l *lua.LState, t *traffic.TLSHandshake) int {
			if len(t.Certs[side]) == 0 {
				return text(l, nil, false)
			}
			c := t.Certs[side][0]
			for _, v := range []string{fmt.Sprintf("TLS %x", t.Version), c.Subject, c.Issuer, c.Fingerprint} {
				l.Push(lua.LString(v))
			}
			return 4
		})
	}
	date := func(side int, after bool) lua.LGFunction {
		return hello(func(l *lua.LState, t *traffic.TLSHandshake) int {
			if len(t.Certs[side]) == 0 {
				return text(l, nil, false)
			}
			at := t.Certs[side][0].NotBefore
			if after {
				at = t.Certs[side][0].NotAfter
			}
			l.Push(lua.LNumber(at.Unix()))
			return 1
		})
	}
	version := hello(func(l *lua.LState, t *traffic.TLSHandshake) int {
		names := map[uint16]string{0x301: "TLSv1", 0x302: "TLS 1.1", 0x303: "TLS 1.2", 0x304: "TLS 1.3"}
		l.Push(lua.LString(names[t.Version]))
		return 1
	})
	chain := func(side int) lua.LGFunction {
		return hello(func(l *lua.LState, t *traffic.TLSHandshake) int {
			list := l.NewTable()
			for _, c := range t.Certs[side] {
				x := l.NewTable()
				x.RawSetString("length", lua.LNumber(len(c.DER)))
				x.RawSetString("data", lua.LString(c.DER))
				list.Append(x)
			}
			l.Push(list)
			return 1
		})
	}
	return st.getter(st.table(map[string]lua.LGFunction{
		"get_client_sni": st.buffer(rule.ToServer, rule.SNI), "sni": st.buffer(rule.ToServer, rule.SNI),
		"get_client_version": version, "get_server_version": version, "get_client_serial": st.buffer(rule.ToServer, rule.CertSerial),
		"get_server_serial": st.buffer(rule.ToClient, rule.CertSerial), "get_client_cert_info": cert(0), "get_server_cert_info": cert(1),
		"get_client_cert_chain": chain(0), "get_server_cert_chain": chain(1), "get_client_cert_not_before": date(0, false),
		"get_client_cert_not_after": date(0, true), "get_server_cert_not_before": date(1, false), "get_server_cert_not_after": date(1, true),
	}))
}

func (st *interpreter) dns() *lua.LTable {
	message := func(f func(l *lua.LState, m *traffic.DNSMessage) int) lua.LGFunction {
		return func(l *lua.LState) int {
			m, ok := st.source().(*traffic.DNSMessage)
			if !ok {
				return text(l, nil, false)
			}
			return f(l, m)
		}
	}
	list := func(of func(m *traffic.DNSMessage) []traffic.DNSName) lua.LGFunction {
		return message(func(l *lua.LState, m *traffic.DNSMessage) int {
			t := l.NewTable()
			for _, n := range of(m) {
				x := l.NewTable()
				x.RawSetString("rrname", lua.LString(n.Name))
				x.RawSetString("type", lua.LNumber(n.Type))
				t.Append(x)
			}
			l.Push(t)
			return 1
		})
	}
	rcodes := []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}
	return st.getter(st.table(map[string]lua.LGFunction{
		"queries":     list(func(m *traffic.DNSMessage) []traffic.DNSName { return m.Queries }),
		"answers":     list(func(m *traffic.DNSMessage) []traffic.DNSName { return m.Answers }),
		"authorities": list(func(m *traffic.DNSMessage) []traffic.DNSName { return m.Authorities }),
		"rrname":      st.buffer(rule.Both, rule.DNSQueriesName),
		"rcode":       message(func(l *lua.LState, m *traffic.DNSMessage) int { l.Push(lua.LNumber(m.Rcode)); return 1 }),
		"rcode_string": message(func(l *lua.LState, m *traffic.DNSMessage) int {
			if int(m.Rcode) < len(rcodes) {
				l.Push(lua.LString(rcodes[m.Rcode]))
			} else {
				l.Push(lua.LString(fmt.Sprint(m.Rcode)))
			}
			return 1
		}),
	}))
}

func (st *interpreter) file() *lua.LTable {
	return st.table(map[string]lua.LGFunction{"get_state": func(l *lua.LState) int { l.Push(lua.LString("CLOSED")); return 1 },
		"current_file": func(l *lua.LState) int {
			if st.tx == nil {
				return text(l, nil, false)
			}
			files := st.tx.Source.Files(st.dir)
			if len(files) == 0 {
				return text(l, nil, false)
			}
			f := files[0]
			is := func(v lua.LValue) lua.LGFunction { return func(l *lua.LState) int { l.Push(v); return 1 } }
			l.Push(st.table(map[string]lua.LGFunction{"name": is(lua.LString(f.Name)), "size": is(lua.LNumber(f.Size)), "magic": is(lua.LString(f.Magic())),
				"md5": is(lua.LString(fmt.Sprintf("%x", md5.Sum(f.Data)))), "sha1": is(lua.LString(fmt.Sprintf("%x", sha1.Sum(f.Data)))), "sha256": is(lua.LString(fmt.Sprintf("%x", sha256.Sum256(f.Data))))}))
			return 1
		}})
}

// tuple pushes IP version, addresses, protocol and ports.
func (st *interpreter) tuple(l *lua.LState) int {
	if st.tx == nil {
		return 0
	}
	version := 4
	if st.tx.Client.Addr().Is6() {
		version = 6
	}
	proto := map[rule.Proto]int{rule.TCP: 6, rule.UDP: 17, rule.ICMP: 1}[st.tx.L4]
	src, dst := st.tx.Client, st.tx.Server
	if p, ok := st.tx.Info.(interface{ Captured() engine.CapturedPacket }); ok && st.tx.App == 0 {
		c := p.Captured()
		src, dst = c.Src, c.Dst
	}
	l.Push(lua.LNumber(version))
	l.Push(lua.LString(src.Addr().String()))
	l.Push(lua.LString(dst.Addr().String()))
	l.Push(lua.LNumber(proto))
	l.Push(lua.LNumber(src.Port()))
	l.Push(lua.LNumber(dst.Port()))
	return 6
}

func (st *interpreter) flow() *lua.LTable {
	f := st.table(map[string]lua.LGFunction{
		"tuple": st.tuple, "id": func(l *lua.LState) int { l.Push(lua.LNumber(1)); return 1 },
		"app_layer_proto": func(l *lua.LState) int {
			name := map[rule.Proto]string{rule.HTTP1: "http", rule.HTTP2: "http2", rule.TLS: "tls", rule.DNS: "dns"}[st.tx.App]
			l.Push(lua.LString(name))
			return 1
		},
		"has_alerts": func(l *lua.LState) int { l.Push(lua.LFalse); return 1 },
	})
	return st.table(map[string]lua.LGFunction{"get": func(l *lua.LState) int { l.Push(f); return 1 }})
}

func (st *interpreter) flowvar() *lua.LTable {
	get := func(l *lua.LState) int {
		name := l.CheckString(1)
		l.Push(st.table(map[string]lua.LGFunction{
			"value": func(l *lua.LState) int {
				if st.tx == nil {
					return text(l, nil, false)
				}
				v, ok := st.tx.Flow.Var(name)
				return text(l, v, ok)
			},
			"set": func(l *lua.LState) int {
				v := l.CheckString(2)
				st.tx.Flow.SetVar(name, []byte(v[:min(len(v), max(0, l.OptInt(3, len(v))))]))
				return 0
			},
		}))
		return 1
	}
	return st.table(map[string]lua.LGFunction{"get": get, "register": get})
}

func (st *interpreter) flowint() *lua.LTable {
	get := func(l *lua.LState) int {
		name := l.CheckString(1)
		add := func(n uint32) lua.LGFunction {
			return func(l *lua.LState) int {
				l.Push(lua.LNumber(st.tx.Flow.SetInt(name, func(old uint32, _ bool) uint32 {
					if n != 1 && old == 0 {
						return 0
					}
					return old + n
				})))
				return 1
			}
		}
		l.Push(st.table(map[string]lua.LGFunction{
			"value": func(l *lua.LState) int {
				v, ok := st.tx.Flow.Int(name)
				if !ok {
					l.Push(lua.LNil)
					return 1
				}
				l.Push(lua.LNumber(v))
				return 1
			},
			"set": func(l *lua.LState) int {
				n := uint32(l.CheckInt64(2))
				st.tx.Flow.SetInt(name, func(uint32, bool) uint32 { return n })
				l.Push(lua.LTrue)
				return 1
			},
			"incr": add(1), "decr": add(^uint32(0)),
		}))
		return 1
	}
	return st.table(map[string]lua.LGFunction{"get": get, "register": get})
}

func (st *interpreter) dataset() *lua.LTable {
	return st.table(map[string]lua.LGFunction{"new": func(l *lua.LState) int {
		name := ""
		l.Push(st.table(map[string]lua.LGFunction{
			"get": func(l *lua.LState) int {
				name = l.CheckString(2)
				l.Push(lua.LTrue)
				return 1
			},
			"add": func(l *lua.LState) int {
				v := l.CheckString(2)
				ok, known := st.tx.State().Set(name, "set", []byte(v[:min(len(v), max(0, l.OptInt(3, len(v))))]))
				if !known {
					return text(l, nil, false)
				}
				if ok {
					l.Push(lua.LNumber(1))
				} else {
					l.Push(lua.LNumber(0))
				}
				return 1
			},
		}))
		return 1
	}})
}

func (st *interpreter) ruleLib() *lua.LTable {
	get := func(f func(r *rule.Rule) lua.LValue) lua.LGFunction {
		return func(l *lua.LState) int { l.Push(f(st.rule)); return 1 }
	}
	r := st.table(map[string]lua.LGFunction{
		"sid": get(func(r *rule.Rule) lua.LValue { return lua.LNumber(r.SID) }), "gid": get(func(r *rule.Rule) lua.LValue { return lua.LNumber(r.GID) }),
		"rev": get(func(r *rule.Rule) lua.LValue { return lua.LNumber(r.Rev) }), "msg": get(func(r *rule.Rule) lua.LValue { return lua.LString(r.Msg) }),
		"priority":          get(func(r *rule.Rule) lua.LValue { return lua.LNumber(r.Priority) }),
		"action":            get(func(r *rule.Rule) lua.LValue { return lua.LString(r.Action.String()) }),
		"class_description": get(func(r *rule.Rule) lua.LValue { return lua.LString(r.Class) }),
	})
	return st.table(map[string]lua.LGFunction{"get_rule": func(l *lua.LState) int { l.Push(r); return 1 }})
}

func (st *interpreter) base64() *lua.LTable {
	enc := func(e *base64.Encoding) lua.LGFunction {
		return func(l *lua.LState) int {
			s := l.CheckString(1)
			st.budget.take(l, 2*len(s))
			l.Push(lua.LString(e.EncodeToString([]byte(s))))
			return 1
		}
	}
	dec := func(e *base64.Encoding) lua.LGFunction {
		return func(l *lua.LState) int {
			v, err := e.DecodeString(l.CheckString(1))
			st.budget.take(l, len(v))
			return text(l, v, err == nil)
		}
	}
	return st.table(map[string]lua.LGFunction{"encode": enc(base64.StdEncoding), "encode_nopad": enc(base64.RawStdEncoding), "decode": dec(base64.StdEncoding),
		"decode_padopt": dec(base64.StdEncoding), "decode_rfc2045": dec(base64.StdEncoding), "decode_rfc4648": dec(base64.StdEncoding)})
}

func (st *interpreter) hash() *lua.LTable {
	digest := func(f func([]byte) []byte, asHex bool) lua.LGFunction {
		return func(l *lua.LState) int {
			s := l.CheckString(1)
			st.budget.step(l, len(s)/4+1)
			d := f([]byte(s))
			if asHex {
				d = []byte(hex.EncodeToString(d))
			}
			l.Push(lua.LString(d))
			return 1
		}
	}
	fs := map[string]lua.LGFunction{}
	for name, f := range map[string]func([]byte) []byte{
		"md5": func(b []byte) []byte { s := md5.Sum(b); return s[:] }, "sha1": func(b []byte) []byte { s := sha1.Sum(b); return s[:] },
		"sha256": func(b []byte) []byte { s := sha256.Sum256(b); return s[:] },
	} {
		fs[name+"_digest"], fs[name+"_hexdigest"] = digest(f, false), digest(f, true)
	}
	return st.table(fs)
}

func (st *interpreter) log() *lua.LTable {
	nothing := func(*lua.LState) int { return 0 }
	fs := map[string]lua.LGFunction{}
	for _, n := range strings.Fields("info notice warning error debug config perf") {
		fs[n] = nothing
	}
	return st.table(fs)
}

func (st *interpreter) bytevar() *lua.LTable {
	get := func(l *lua.LState) int {
		name := l.CheckString(1)
		l.Push(st.table(map[string]lua.LGFunction{"value": func(l *lua.LState) int {
			if i := slices.Index(st.rule.Vars, name); i >= 0 && st.tx != nil {
				if v, ok := st.tx.Variable(i); ok {
					l.Push(lua.LNumber(v))
					return 1
				}
			}
			return text(l, nil, false)
		}}))
		return 1
	}
	return st.table(map[string]lua.LGFunction{"get": get, "map": get, "register": get})
}

func (st *interpreter) util() *lua.LTable { return st.table(nil) }

// captured returns the current packet.
func (st *interpreter) captured() (engine.CapturedPacket, bool) {
	if st.tx == nil {
		return engine.CapturedPacket{}, false
	}
	p, ok := st.tx.Info.(interface{ Captured() engine.CapturedPacket })
	if !ok {
		return engine.CapturedPacket{}, false
	}
	return p.Captured(), true
}

func (st *interpreter) packet() *lua.LTable {
	with := func(f func(l *lua.LState, c engine.CapturedPacket) int) lua.LGFunction {
		return func(l *lua.LState) int {
			c, ok := st.captured()
			if !ok {
				return text(l, nil, false)
			}
			return f(l, c)
		}
	}
	p := st.table(map[string]lua.LGFunction{
		"payload":  with(func(l *lua.LState, c engine.CapturedPacket) int { return text(l, c.Payload, true) }),
		"packet":   with(func(l *lua.LState, c engine.CapturedPacket) int { return text(l, c.Packet, true) }),
		"pcap_cnt": with(func(l *lua.LState, c engine.CapturedPacket) int { l.Push(lua.LNumber(c.Number)); return 1 }),
		"timestring_iso8601": with(func(l *lua.LState, c engine.CapturedPacket) int {
			return text(l, []byte(c.Time.UTC().Format("2006-01-02T15:04:05.000000-0700")), true)
		}),
		"timestring_legacy": with(func(l *lua.LState, c engine.CapturedPacket) int {
			return text(l, []byte(c.Time.UTC().Format("01/02/2006-15:04:05.000000")), true)
		}),
		"timestamp": with(func(l *lua.LState, c engine.CapturedPacket) int {
			l.Push(lua.LNumber(c.Time.Unix()))
			l.Push(lua.LNumber(c.Time.Nanosecond() / int(time.Microsecond)))
			return 2
		}),
		"tuple": with(func(l *lua.LState, c engine.CapturedPacket) int { return st.tupleOf(l, c) }),
		"sp":    with(func(l *lua.LState, c engine.CapturedPacket) int { l.Push(lua.LNumber(c.Src.Port())); return 1 }),
		"dp":    with(func(l *lua.LState, c engine.CapturedPacket) int { l.Push(lua.LNumber(c.Dst.Port())); return 1 }),
	})
	return st.table(map[string]lua.LGFunction{"get": func(l *lua.LState) int { l.Push(p); return 1 }})
}

func (st *interpreter) tupleOf(l *lua.LState, c engine.CapturedPacket) int {
	version := 4
	if c.Src.Addr().Is6() {
		version = 6
	}
	l.Push(lua.LNumber(version))
	l.Push(lua.LString(c.Src.Addr().String()))
	l.Push(lua.LString(c.Dst.Addr().String()))
	l.Push(lua.LNumber(c.Proto))
	l.Push(lua.LNumber(c.Src.Port()))
	l.Push(lua.LNumber(c.Dst.Port()))
	return 6
}

// legacy adds the functions for scripts written for older versions.
func (st *interpreter) legacy() {
	fs := map[string]lua.LGFunction{
		"HttpGetRequestUriRaw": st.buffer(rule.ToServer, rule.URIRaw), "HttpGetRequestUriNormalized": st.buffer(rule.ToServer, rule.URI),
		"HttpGetRequestLine": st.buffer(rule.ToServer, rule.RequestLine), "HttpGetResponseLine": st.buffer(rule.ToClient, rule.ResponseLine),
		"HttpGetRequestHost": st.buffer(rule.ToServer, rule.Host), "HttpGetRequestHeader": st.header(0, 1), "HttpGetResponseHeader": st.header(1, 1),
		"HttpGetRawRequestHeaders": st.buffer(rule.ToServer, rule.HeaderRaw), "HttpGetRawResponseHeaders": st.buffer(rule.ToClient, rule.HeaderRaw),
		"HttpGetRequestHeaders": st.headers(0), "HttpGetResponseHeaders": st.headers(1),
		"HttpGetRequestBody": st.bodies(rule.ToServer, rule.RequestBody), "HttpGetResponseBody": st.bodies(rule.ToClient, rule.ResponseBody),
		"Ja3GetHash": st.buffer(rule.ToServer, rule.JA3Hash), "Ja3GetString": st.buffer(rule.ToServer, rule.JA3String),
		"Ja3SGetHash": st.buffer(rule.ToClient, rule.JA3SHash), "Ja3SGetString": st.buffer(rule.ToClient, rule.JA3SString),
		"TlsGetSNI": st.buffer(rule.ToServer, rule.SNI), "TlsGetCertSerial": st.buffer(rule.ToClient, rule.CertSerial),
		"SCPacketPayload": st.buffer(rule.Both, rule.Payload), "SCFlowTuple": st.tuple, "SCPacketTuple": st.tuple,
		"SCRuleIds": func(l *lua.LState) int {
			for _, n := range []uint32{st.rule.SID, st.rule.Rev, st.rule.GID} {
				l.Push(lua.LNumber(n))
			}
			return 3
		},
		"SCRuleMsg": func(l *lua.LState) int { l.Push(lua.LString(st.rule.Msg)); return 1 },
		"SCRuleClass": func(l *lua.LState) int {
			l.Push(lua.LString(st.rule.Class))
			l.Push(lua.LNumber(st.rule.Priority))
			return 2
		},
		"ScFlowvarGet": func(l *lua.LState) int {
			i := l.CheckInt(1)
			if i < 0 || i >= len(st.script.vars) {
				return text(l, nil, false)
			}
			v, ok := st.tx.Flow.Var(st.script.vars[i])
			return text(l, v, ok)
		},
		"ScFlowvarSet": func(l *lua.LState) int {
			if i := l.CheckInt(1); i >= 0 && i < len(st.script.vars) {
				st.tx.Flow.SetVar(st.script.vars[i], []byte(l.CheckString(2)))
			}
			return 0
		},
		"ScFlowintGet": func(l *lua.LState) int {
			i := l.CheckInt(1)
			if i < 0 || i >= len(st.script.ints) {
				return text(l, nil, false)
			}
			v, ok := st.tx.Flow.Int(st.script.ints[i])
			if !ok {
				return text(l, nil, false)
			}
			l.Push(lua.LNumber(v))
			return 1
		},
		"ScFlowintSet": func(l *lua.LState) int {
			n := uint32(l.CheckInt64(2))
			return st.setInt(l, func(uint32, bool) uint32 { return n })
		},
		"ScFlowintIncr": func(l *lua.LState) int { return st.setInt(l, func(old uint32, _ bool) uint32 { return old + 1 }) },
		"ScFlowintDecr": func(l *lua.LState) int {
			return st.setInt(l, func(old uint32, _ bool) uint32 { return max(old, 1) - 1 })
		},
	}
	for _, n := range strings.Fields("Debug Info Notice Warning Error") {
		fs["SCLog"+n] = func(*lua.LState) int { return 0 }
	}
	for name, f := range fs {
		st.l.SetGlobal(name, st.l.NewFunction(f))
	}
	for _, n := range strings.Fields("varGet varSet intGet intSet intIncr intDecr") {
		st.l.SetGlobal("SCFlow"+n, st.l.GetGlobal("ScFlow"+n))
	}
}

// setInt changes the flow integer with the index that is the first argument, and returns the
// new value to the script.
func (st *interpreter) setInt(l *lua.LState, change func(old uint32, ok bool) uint32) int {
	i := l.CheckInt(1)
	if i < 0 || i >= len(st.script.ints) {
		return 0
	}
	l.Push(lua.LNumber(st.tx.Flow.SetInt(st.script.ints[i], change)))
	return 1
}
