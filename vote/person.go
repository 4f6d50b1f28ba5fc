package vote

import "slices"

// A Person is somebody whose votes can be erased: names of users, and addresses
// of devices that are nobody else's.
type Person struct {
	Users   []string
	Clients []string
	// Named says whether a text of somebody else names the person. It may be nil.
	Named func(text string) bool
}

// Of says whether a vote is of the person.
func (p *Person) Of(v *Vote) bool {
	return v.Event.User != "" && slices.Contains(p.Users, v.Event.User) || v.Event.Client != "" && slices.Contains(p.Clients, v.Event.Client)
}

// Is says whether a name is one of the person's.
func (p *Person) Is(name string) bool {
	return name != "" && (slices.Contains(p.Users, name) || slices.Contains(p.Clients, name))
}
