package vote

import "slices"

// A Person is the owner of votes that can be erased: names of users, and
// addresses of devices that only this person uses.
type Person struct {
	Users   []string
	Clients []string
	// Named reports whether another person's text names the person. It may be nil.
	Named func(text string) bool
}

// Of reports whether a vote is the person's.
func (p *Person) Of(v *Vote) bool {
	return v.Event.User != "" && slices.Contains(p.Users, v.Event.User) || v.Event.Client != "" && slices.Contains(p.Clients, v.Event.Client)
}

// Is reports whether a name belongs to the person.
func (p *Person) Is(name string) bool {
	return name != "" && (slices.Contains(p.Users, name) || slices.Contains(p.Clients, name))
}
