// Package lua runs the scripts that signature rules name with lua and luaxform.
//
// [Pool.Load] reads and compiles a script once. Each use takes a Lua state from the script's
// own pool, provides the message through the suricata libraries and older functions, and calls
// match or transform. A state has a budget of instructions and bytes, to which library
// functions charge their work (budget.go, pattern.go). A script that fails does not match.
package lua

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
)

// Limits bound scripts. A zero value means the limit of Suricata.
type Limits struct {
	Instructions int  // per call; default 500,000
	Bytes        int  // of strings per call; default 500,000
	Restricted   bool // allow functions that Suricata's sandbox blocks
}

// maxScript limits the bytes of a script file.
const maxScript = 1 << 20

// maxIdle limits the unused states of a script.
const maxIdle = 16

// renewAfter is the number of longest calls after which a state is replaced, so that global
// variables of a script do not grow without limit.
const renewAfter = 4

// A Pool loads scripts and counts failures. It is safe for concurrent use.
type Pool struct {
	limits Limits

	Errors, Blocked, OverInstructions, OverBytes atomic.Int64
}

// NewPool returns a pool.
func NewPool(l Limits) *Pool {
	if l.Instructions == 0 {
		l.Instructions = 500_000
	}
	if l.Bytes == 0 {
		l.Bytes = 500_000
	}
	return &Pool{limits: l}
}

// A script is a compiled script with its states.
type script struct {
	pool    *Pool
	name    string
	proto   *lua.FunctionProto
	needs   []string
	vars    []string // flowvars that the script declares, by position
	ints    []string
	message bool

	mu   sync.Mutex
	idle []*interpreter
}

// Load compiles a script; errors contain its name.
func (p *Pool) Load(name string, text []byte) (engine.Script, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are possible", name, len(text), maxScript)
	}
	return p.compile(name, text)
}

func (p *Pool) compile(name string, text []byte) (*script, error) {
	chunk, err := parse.Parse(bufio.NewReader(bytes.NewReader(text)), name)
	if err != nil { // perhaps it has operators of Lua 5.4
		newer, again := parse.Parse(strings.NewReader(translate(string(text))), name)
		if again != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		chunk = newer
	}
	guard(chunk)
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &script{pool: p, name: name, proto: proto}
	st, err := s.take()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer s.give(st)
	low := string(text)
	for _, lib := range []string{"http", "tls", "dns", "ja3", "file"} {
		s.message = s.message || strings.Contains(low, "suricata."+lib+`"`) || strings.Contains(low, "suricata."+lib+`'`)
	}
	for _, n := range s.needs {
		k, _, _ := strings.Cut(n, ".")
		s.message = s.message || k == "http" || k == "tls" || k == "dns" || k == "ja3" || k == "ja3s"
	}
	for _, f := range []string{"Ja3GetHash", "Ja3SGetHash", "Ja3GetString", "Ja3SGetString", "HttpGet", "TlsGet", "DnsGet"} {
		s.message = s.message || strings.Contains(low, f)
	}
	return s, nil
}

// Message implements [engine.Script].
func (s *script) Message() bool { return s.message }

// Directions implements [engine.Script].
func (s *script) Directions() rule.Direction {
	sides := rule.Both
	for _, n := range s.needs {
		sides &= sideOf(n, rule.Both)
	}
	if sides == 0 { // of a request and its response
		return rule.Both
	}
	return sides
}

// sideOf returns the side that sends a buffer named in needs, or other if both may.
func sideOf(need string, other rule.Direction) rule.Direction {
	switch {
	case strings.Contains(need, "request") || strings.HasPrefix(need, "http.uri"):
		return rule.ToServer
	case strings.Contains(need, "response"):
		return rule.ToClient
	}
	return other
}

// Buffer implements [engine.Script].
func (s *script) Buffer() (b rule.Buffer, ok bool) {
	for _, n := range s.needs {
		if b, ok := buffers[n]; ok && b != rule.Payload {
			return b, true
		}
	}
	return 0, false
}

// take returns an unused state, or makes one.
func (s *script) take() (*interpreter, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		st := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return st, nil
	}
	s.mu.Unlock()
	return newInterpreter(s)
}

func (s *script) give(st *interpreter) {
	st.call = call{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < maxIdle && !st.broken && st.budget.asked < uint(renewAfter*s.pool.limits.Instructions) {
		s.idle = append(s.idle, st)
		return
	}
	st.l.Close()
}

// Match implements [engine.Script].
func (s *script) Match(tx *engine.Tx, dir rule.Direction, r *rule.Rule, buf []byte, cursor int) bool {
	st, err := s.take()
	if err != nil {
		s.pool.Errors.Add(1)
		return false
	}
	defer s.give(st)
	st.call = call{tx: tx, dir: dir, rule: r, buf: buf, cursor: cursor}
	out, ok := st.run("match", 1, st.arguments())
	if !ok {
		return false
	}
	n, isNumber := out[0].(lua.LNumber)
	return isNumber && n == 1
}

// Transform implements [engine.Script].
func (s *script) Transform(buf []byte, args []string) ([]byte, bool) {
	st, err := s.take()
	if err != nil {
		s.pool.Errors.Add(1)
		return buf, false
	}
	defer s.give(st)
	list := st.l.NewTable()
	for _, a := range args {
		list.Append(lua.LString(a))
	}
	out, ok := st.run("transform", 2, lua.LString(buf), list)
	if !ok {
		return buf, false
	}
	text, ok1 := out[0].(lua.LString)
	n, ok2 := out[1].(lua.LNumber)
	if !ok1 || !ok2 || int(n) < 0 {
		return buf, false
	}
	return []byte(text)[:min(len(text), int(n))], true
}

// A call has the arguments of a call of a script.
type call struct {
	tx     *engine.Tx
	dir    rule.Direction
	rule   *rule.Rule
	buf    []byte
	cursor int
}

// An interpreter is a Lua state of one script.
type interpreter struct {
	call
	script *script
	l      *lua.LState
	budget budget
	broken bool
}

func newInterpreter(s *script) (*interpreter, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: 200, RegistrySize: 1024, RegistryMaxSize: 64 << 10, RegistryGrowStep: 1024})
	st := &interpreter{script: s, l: l}
	st.budget = budget{limits: s.pool.limits}
	l.SetContext(&st.budget)
	st.libraries()
	st.budget.reset()
	l.Push(l.NewFunctionFromProto(s.proto))
	if err := l.PCall(0, 0, nil); err != nil {
		l.Close()
		return nil, err
	}
	if f, ok := l.GetGlobal("init").(*lua.LFunction); ok {
		args := l.NewTable()
		if err := l.CallByParam(lua.P{Fn: f, NRet: 1, Protect: true}, args); err != nil {
			l.Close()
			return nil, fmt.Errorf("init: %w", err)
		}
		if t, ok := l.Get(-1).(*lua.LTable); ok && s.needs == nil {
			s.readNeeds(t)
		}
		l.Pop(1)
	}
	if f, ok := l.GetGlobal("thread_init").(*lua.LFunction); ok {
		if err := l.CallByParam(lua.P{Fn: f, NRet: 0, Protect: true}, l.NewTable()); err != nil {
			l.Close()
			return nil, fmt.Errorf("thread_init: %w", err)
		}
	}
	return st, nil
}

// readNeeds reads the needs that init returns.
func (s *script) readNeeds(t *lua.LTable) {
	names := func(v lua.LValue) (out []string) {
		if list, ok := v.(*lua.LTable); ok {
			list.ForEach(func(_, x lua.LValue) { out = append(out, x.String()) })
		}
		return out
	}
	t.ForEach(func(k, v lua.LValue) {
		s.needs = append(s.needs, k.String())
		switch k.String() {
		case "flowvar":
			s.vars = names(v)
		case "flowint":
			s.ints = names(v)
		}
	})
}

// run calls a function of the script.
func (st *interpreter) run(name string, results int, args ...lua.LValue) ([]lua.LValue, bool) {
	f, ok := st.l.GetGlobal(name).(*lua.LFunction)
	if !ok {
		st.script.pool.Errors.Add(1)
		return nil, false
	}
	st.budget.reset()
	err := st.l.CallByParam(lua.P{Fn: f, NRet: results, Protect: true}, args...)
	if err != nil {
		st.countFailure()
		return nil, false
	}
	out := make([]lua.LValue, results)
	for i := range out {
		out[i] = st.l.Get(i - results)
	}
	st.l.Pop(results)
	return out, true
}

// countFailure counts a failure.
func (st *interpreter) countFailure() {
	p := st.script.pool
	p.Errors.Add(1)
	if st.budget.overInstructions {
		p.OverInstructions.Add(1)
	}
	if st.budget.overBytes {
		p.OverBytes.Add(1)
	}
	st.l.SetTop(0)
	st.broken = true // it may contain leftovers of the failed script
}

// buffers are the buffers by their names in needs.
var buffers = map[string]rule.Buffer{
	"http.uri": rule.URI, "http.uri.raw": rule.URIRaw, "http.request_line": rule.RequestLine, "http.request_headers": rule.HeaderAll,
	"http.request_headers.raw": rule.HeaderRaw, "http.request_cookie": rule.Cookie, "http.request_user_agent": rule.UserAgent,
	"http.request_body": rule.RequestBody, "http.response_headers": rule.HeaderAll, "http.response_headers.raw": rule.HeaderRaw,
	"http.response_body": rule.ResponseBody, "http.response_cookie": rule.Cookie, "http.response_line": rule.ResponseLine,
	"dns.rrname": rule.DNSQueriesName, "payload": rule.Payload, "packet": rule.Payload, "stream": rule.Payload, "file.data": rule.FileData,
}

// arguments makes the table that match gets as its argument.
func (st *interpreter) arguments() *lua.LTable {
	t := st.l.NewTable()
	for _, n := range st.script.needs {
		b, ok := buffers[n]
		switch {
		case n == "buffer" && st.buf != nil:
			t.RawSetString(n, lua.LString(st.buf))
		case ok:
			if v, ok := st.tx.Buffer(sideOf(n, st.dir), b, 0); ok {
				t.RawSetString(n, lua.LString(v))
			}
		}
	}
	t.RawSetString("offset", lua.LNumber(st.cursor+1)) // positions count from 1 in Lua
	return t
}
