package filter

import "sync"

// A Flow is the memory of checks about one connection of a client, such as the flow bits of
// signatures: a request sets a bit, and a rule tests it on the response or a later request.
// The server that accepts the connection owns one Flow and gives it to every transaction on
// it, including concurrent HTTP/2 streams. It never belongs to a connection to an origin,
// which carries requests of several clients.
//
// The zero value is empty. A Flow is safe for concurrent use.
type Flow struct {
	mu     sync.Mutex
	values map[any]any
}

// Update replaces the value under key by the result of change, and returns it. A check uses
// itself as the key, so that a check made from new settings does not read values of an older
// one. change gets nil at first; it must not call methods of the Flow.
func (f *Flow) Update(key any, change func(old any) any) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := change(f.values[key])
	if f.values == nil {
		f.values = map[any]any{}
	}
	f.values[key] = v
	return v
}

// Reset removes everything, for the next connection.
func (f *Flow) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.values)
}
