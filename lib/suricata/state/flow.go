package state

import (
	"slices"
	"sync"
)

// A Flow is the memory of rules about one connection. Its methods are safe for
// concurrent use.
type Flow struct {
	mu    sync.Mutex
	bits  map[string]struct{}
	ints  map[string]uint32
	vars  map[string][]byte
	named []string // the names of vars, in the order in which they were set

	Passed   bool   // a pass rule matched: nothing more is inspected
	Bypassed bool   // a rule that ends the inspection matched; Passed is also set
	Dropped  bool   // a drop rule matched, and drops are obeyed
	begun    [2]any // by direction: the engine whose rules on addresses were tried
}

// Bit changes or tests a flow bit.
func (f *Flow) Bit(command, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.bits[name]
	switch command {
	case "isset":
		return ok
	case "isnotset":
		return !ok
	case "unset":
		delete(f.bits, name)
		return true
	case "toggle":
		if ok {
			delete(f.bits, name)
			return true
		}
	}
	if f.bits == nil {
		f.bits = map[string]struct{}{}
	}
	if len(f.bits) < maxNames {
		f.bits[name] = struct{}{}
	}
	return true
}

// Bits returns the flow bits that are set, sorted.
func (f *Flow) Bits() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for b := range f.bits {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// Int returns a number of the connection.
func (f *Flow) Int(name string) (uint32, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.ints[name]
	return v, ok
}

// SetInt replaces a number of the connection by the result of change.
func (f *Flow) SetInt(name string, change func(old uint32, ok bool) uint32) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, ok := f.ints[name]
	v := change(old, ok)
	if f.ints == nil {
		f.ints = map[string]uint32{}
	}
	if ok || len(f.ints) < maxNames {
		f.ints[name] = v
	}
	return v
}

// Ints returns the numbers of the connection.
func (f *Flow) Ints() map[string]uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]uint32{}
	for k, v := range f.ints {
		out[k] = v
	}
	return out
}

// Var returns a string of the connection.
func (f *Flow) Var(name string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.vars[name]
	return v, ok
}

// SetVar stores a string of the connection.
func (f *Flow) SetVar(name string, v []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.vars == nil {
		f.vars = map[string][]byte{}
	}
	_, ok := f.vars[name]
	if !ok && len(f.vars) >= maxNames {
		return
	}
	if f.vars[name] = slices.Clone(v); !ok {
		f.named = append(f.named, name)
	}
}

// A Variable is a string of a connection with its name.
type Variable struct {
	Name  string
	Value []byte
}

// Variables returns the strings of the connection, in the order in which they were first set.
func (f *Flow) Variables() (all []Variable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.named {
		all = append(all, Variable{name, f.vars[name]})
	}
	return all
}

// Begin reports whether a packet is the first one in its direction on which
// the rules on addresses of an engine are tried.
func (f *Flow) Begin(engine any, d int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun[d] == engine {
		return false
	}
	f.begun[d] = engine
	return true
}
