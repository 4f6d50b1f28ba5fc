package web

import (
	"net/http"

	"shuultuur/admin/account"
)

// A Role determines who may use a route. The token of the settings and, while
// there are no accounts, this machine have the role of an owner.
type Role int

const (
	Anyone   Role = iota // every client that reaches the address
	Monitor              // networks of [Shared.Monitors], this machine, and everyone with the role operator
	Viewer               // every account
	Helper               // those who look after groups, for their own groups only; and all below
	Lead                 // safeguarding leads, and all below
	Operator             // operators and owners
	Owner                // owners
)

// Least returns the least role of an account that may use a route for r.
var Least = [...]account.Role{Anyone: account.None, Monitor: account.Operator, Viewer: account.Viewer, Helper: account.Helper,
	Lead: account.Lead, Operator: account.Operator, Owner: account.Owner}

// String returns the name of the role in the description of the API.
func (r Role) String() string {
	return [...]string{"anyone", "monitor", "viewer", "helper", "safeguarding-lead", "operator", "owner"}[r]
}

// A Route is one line of the table of pages: who may use it, what it does, what the menu and the
// description of the API say about it, and how it shows the effect of a change.
type Route struct {
	Method, Path string // as in a pattern of [http.ServeMux]
	Role         Role
	Link         *link // of the menu; nil: none
	Does         string
	Query        []Field
	Form         []Field
	Body         string // media types of a body that is not a form, with blanks between them
	Gives        string // media types of the answer; "" is JSON
	Effect       string // of a route that changes something: [Judged], [Explained], or why it shows none
	Handler      http.HandlerFunc
}

// HasDryRun reports whether a route answers dry_run=true with the effect of a change, and if not,
// why.
func (r Route) HasDryRun() (ok bool, why string) {
	return r.Effect == Judged || r.Effect == Explained, r.Effect
}

// A Field is a parameter of a query or a form. What it means is a text, or the values that it
// may have, with " | " between them.
type Field struct {
	Name, What string
	Required   bool
}

// Optional returns a parameter that may be left out.
func Optional(name, what string) Field { return Field{name, what, false} }

// Required returns a parameter that must be there.
func Required(name, what string) Field { return Field{name, what, true} }

const (
	PageOrJSON = "application/json text/html"
	AnyText    = "text/plain"
	AnyBytes   = "application/octet-stream"
)

// These are fields of many forms.
var (
	ByID    = []Field{Required("id", "identifier")}
	OnTrial = Optional("dry_run", "true: say the effect and save nothing")
)
