package test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"shuultuur/lib/wait/waittest"
)

// TestAnOwnerInvitesATeacher: the teacher opens the link, chooses a password, and is in; the link leads
// nowhere afterwards. Then the owner takes the account out, and takes that back.
func TestAnOwnerInvitesATeacher(t *testing.T) {
	t.Parallel()
	onEachScreen(t, anOwnerInvitesATeacher)
}

func anOwnerInvitesATeacher(t *testing.T, width int) {
	h := classHouse(t)
	h.accounts(ownerAnd()...)
	owner, teacher := h.adminBrowser(), h.adminBrowser()
	owner.look(width, "light")
	teacher.look(width, "light")
	owner.signIn(h.pages(), "olga", password)
	owner.shows("Needs you")
	owner.open(h.pages() + "/accounts")
	owner.fill("#invite [name=name]", "tess")
	owner.fill("#invite [name=role]", "helper")
	owner.click("#invite button.main")
	owner.shows("looks after no group") // beside the form, with what was typed
	owner.fill("#invite [name=groups]", "class-7a")
	owner.click("#invite button.main")
	owner.shows("Send this link to tess")
	link := owner.script("return document.querySelector('#link code').textContent")
	teacher.open(link)
	teacher.shows("Welcome, tess")
	teacher.fill("[name=password]", password)
	teacher.click("button.main")
	teacher.shows("helper of class-7a")
	owner.open(link)
	owner.shows("This link leads nowhere")
	owner.open(h.pages() + "/accounts")
	owner.script("document.querySelector(\"form[action='/accounts/remove'] [value=tess]\").form.requestSubmit()")
	owner.shows("Take out tess?")
	owner.click("#sure button.primary")
	owner.shows("The account tess is gone.")
	owner.click("form[action='/accounts/restore'] button")
	owner.shows("class-7a")
}

// TestAZoneIsSignedByAButton: the page shows the DS record, and the answers have signatures.
func TestAZoneIsSignedByAButton(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aZoneIsSignedByAButton)
}

func aZoneIsSignedByAButton(t *testing.T, width int) {
	h := newHouse(t, nil)
	h.write("shuultuur.yaml", "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\ndata: data\ndns:\n  listen: 127.0.0.1:0\n  forward: {upstreams: [127.0.0.1:1]}\n  zones: {files: [{path: zones}], reread: 50ms}\npolicies: [{name: everyone}]\n")
	h.write("zones/school.example.zone", "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n")
	h.restart()
	b := h.adminBrowser()
	b.look(width, "light")
	b.openUntil(h.pages()+"/zones/school.example.", "Sign this zone")
	b.click("#sign")
	b.shows("signed here")
	waittest.Until(t, "the DS record", func() bool {
		b.open(h.pages() + "/zones/school.example.")
		return strings.Contains(b.script("return document.querySelector('#ds code')?.textContent || ''"), "DS")
	})
	b.click("#ds button")
	b.shows("the parent cannot be asked")
	if text, _ := os.ReadFile(h.file); !strings.Contains(string(text), "zone-keys") {
		t.Errorf("the settings do not name the keys:\n%s", text)
	}
}

// TestSettingsAreChangedInTheForm: a mistake stands beside its field and nothing typed is lost; a good
// value is in the file, with its comments.
func TestSettingsAreChangedInTheForm(t *testing.T) {
	t.Parallel()
	onEachScreen(t, settingsAreChangedInTheForm)
}

func settingsAreChangedInTheForm(t *testing.T, width int) {
	h := newHouse(t, nil)
	h.write("shuultuur.yaml", "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\ndata: data\nproxy:\n  idle: 40s # patient\npolicies: [{name: everyone}]\n")
	h.restart()
	b := h.adminBrowser()
	b.look(width, "light")
	b.open(h.pages() + "/settings/form?" + url.Values{"q": {"proxy.idle"}}.Encode())
	field := "[name='v.proxy.idle']"
	b.fill(field, "soon")
	b.click("footer button.primary")
	b.shows("is not a duration")
	if got := b.script("return document.querySelector(\"" + field + "\").value"); got != "soon" {
		t.Errorf("the field has %q", got)
	}
	b.fill(field, "50s")
	b.click("footer button.primary")
	b.shows("Saved and in use.")
	if text, _ := os.ReadFile(h.file); !strings.Contains(string(text), "idle: 50s # patient") {
		t.Errorf("the settings are\n%s", text)
	}
}

// TestABackupIsKeptAndPutBack: the backup is made by a button, and put back after a question; then the
// settings are as they were, and there is a way back.
func TestABackupIsKeptAndPutBack(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aBackupIsKeptAndPutBack)
}

func aBackupIsKeptAndPutBack(t *testing.T, width int) {
	h := newHouse(t, nil)
	const before = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\ndata: data\npages: {contact: the old one}\npolicies: [{name: everyone}]\n"
	h.write("shuultuur.yaml", before)
	h.restart()
	b := h.adminBrowser()
	b.look(width, "light")
	b.open(h.pages() + "/system")
	b.click("form[action='/system/backups'] button")
	b.shows("Put back…")
	h.write("shuultuur.yaml", strings.Replace(before, "old", "new", 1))
	b.click("#backups li form[action='/system/restore'] button")
	b.shows("Put this backup back?")
	b.click("#sure button.primary")
	waittest.Until(t, "the end of the gateway", h.g.StartsAgain)
	h.restart()
	if text, _ := os.ReadFile(h.file); string(text) != before {
		t.Errorf("the settings are\n%s", text)
	}
	b.open(h.pages() + "/system")
	if n := b.script("return document.querySelectorAll('#backups li').length"); n != "2" {
		t.Errorf("%s backups are kept, want that and the way back", n)
	}
}
