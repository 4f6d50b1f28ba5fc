package test

import "testing"

// TestPeopleAreServedOnTheirPage: somebody's web is closed for an hour and opened again, and a person
// changes the group, where they stand.
func TestPeopleAreServedOnTheirPage(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, width int) {
		h := classHouse(t)
		b := h.adminBrowser()
		b.look(width, "light")
		status := func(when string, two, three int) {
			t.Helper()
			if a, c := h.statusFor("127.0.0.2", "http://other.example/"), h.statusFor("127.0.0.3", "http://other.example/"); (a == 403) != (two == 403) || (c == 403) != (three == 403) {
				t.Errorf("%s: they get status %d and %d, want %d and %d", when, a, c, two, three)
			}
		}
		status("before", 404, 404)
		b.open(h.pages() + "/clients")
		b.unfold()
		b.change(`#in-class-7a form:has([value="*"]) [value="1h"]`)
		b.shows("web closed until")
		status("while it is closed for 7a", 403, 404)
		b.picture("people-closed")
		b.change(`#in-class-7a [value=end]`)
		b.shows("Close the web")
		status("afterwards", 404, 404)
	})
}
