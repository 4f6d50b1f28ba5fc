package filter

import "sync"

// A Flow is what checks remember of one connection of a client, such as the flow
// bits of signatures: a request sets a bit, and a rule asks for it when it sees
// the response or a later request. The server that accepts the connection owns
// one Flow and gives it to every transaction on it, HTTP/2 streams included,
// which are judged at the same time. It never belongs to a connection to an
// origin: these carry requests of several clients.
//
// The zero value is empty. It is safe for many goroutines.
type Flow struct {
	mu     sync.Mutex
	values map[any]any
}

// Update replaces what is kept under key by what change makes of it, and returns
// that. A check uses itself as the key, so that one made of new settings does
// not read what another one wrote. change gets nil at first; it must not call
// methods of the Flow.
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

// Reset forgets everything, for the next connection.
func (f *Flow) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.values)
}
