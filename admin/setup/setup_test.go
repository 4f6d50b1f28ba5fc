package setup_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/setup"
	"shuultuur/lib/lan"
)

var (
	ours  = netip.MustParseAddr("192.168.1.20")
	phone = netip.MustParseAddr("192.168.1.31")
)

// A first is an address on which the first steps are offered.
type first struct {
	t       *testing.T
	s       *setup.Setup
	book    *account.Book
	site    http.Handler
	machine setup.Machine
	wrote   []setup.Answers
	refuses error // of writing
	freed   []netip.Addr
	came    []setup.First
	ended   int
	cookie  string
}

func newFirst(t *testing.T) *first {
	t.Helper()
	book, err := account.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &first{t: t, book: book, machine: setup.Machine{Addresses: []lan.Address{{Card: "enp1s0", Addr: ours}}, Router: netip.MustParseAddr("192.168.1.1"), Upstreams: []netip.Addr{netip.MustParseAddr("192.168.1.1")}, Devices: []setup.Device{{Addr: phone, Name: "iphone"}}, Internet: true}}
	f.s = &setup.Setup{Token: "secret", Hosts: []string{"192.168.1.20:8081"}, Topics: []setup.Topic{{Name: "ads", What: "Ads and tracking", Icon: "ads", Lists: []setup.TopicList{{"easylist", "ads", "2 MB", "GPL-3.0"}}}, {Name: "pastime", What: "Gambling", Icon: "dice", Optional: true}},
		Machine: func(context.Context) setup.Machine { return f.machine },
		Write: func(_ context.Context, a setup.Answers) error {
			if f.refuses == nil {
				f.wrote = append(f.wrote, a)
			}
			return f.refuses
		},
		Free: func(_ context.Context, at netip.Addr) error {
			f.freed, f.machine.Port53 = append(f.freed, at), nil
			return f.refuses
		},
		Places: func() setup.Places {
			return setup.Places{Addr: "192.168.1.20", DNS: "192.168.1.20", Proxy: "192.168.1.20:8080", Portal: "http://192.168.1.20/", Pages: "https://192.168.1.20:8443/", Router: "192.168.1.1"}
		},
		First:    func(context.Context, time.Time) ([]setup.First, error) { return f.came, nil },
		Arriving: func() []setup.Arrival { return []setup.Arrival{{Name: "easylist"}} },
		Ended:    func() { f.ended++ },
	}
	p := admintest.Nobody()
	p.Accounts = book
	p.Setup = func() *setup.Setup { return f.s }
	f.site = admin.New(p)
	return f
}

// ask sends a request from another machine of the network, without a script.
func (f *first) ask(method, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://192.168.1.20:8081"+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = "192.168.1.31:5000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	if f.cookie != "" {
		r.Header.Set("Cookie", f.cookie)
	}
	w := httptest.NewRecorder()
	f.site.ServeHTTP(w, r)
	if c := w.Header().Get("Set-Cookie"); c != "" {
		f.cookie, _, _ = strings.Cut(c, ";")
	}
	return w
}

// post sends the answers of a step, and fails unless the answer has a status and leads or says there.
func (f *first) post(step, form string, status int, says string) {
	f.t.Helper()
	values, err := url.ParseQuery("token=secret&" + form)
	if err != nil {
		f.t.Fatal(err)
	}
	if w := f.ask("POST", "/setup/"+step, values); w.Code != status || !strings.Contains(w.Header().Get("Location")+w.Body.String(), says) {
		f.t.Errorf("%s with %s: status %d, want %d with %q: %s %s", step, form, w.Code, status, says, w.Header().Get("Location"), w.Body)
	}
}

const good = "you name=Oyuna&password=long+enough+1|people who=school&network=School+5&contact=desk+3&children=yes&device=192.168.1.31&person=Anna&child=192.168.1.31|filter topic=ads&safesearch=yes|network way=both&at=192.168.1.20&certificate=yes"

// answers sends the good answers of the first steps up to a step.
func (f *first) answers(before string) {
	f.t.Helper()
	for part := range strings.SplitSeq(good, "|") {
		step, form, _ := strings.Cut(part, " ")
		if step == before {
			return
		}
		f.post(step, form, 303, "/setup")
	}
}

func TestWhoeverHasNoTokenGetsNothing(t *testing.T) {
	f := newFirst(t)
	for _, path := range []string{"/setup", "/setup?token=guess", "/setup?token=", "/setup?step=network&token=x"} {
		if w := f.ask("GET", path, nil); w.Code != 403 || strings.Contains(w.Body.String(), "192.168.1.31") {
			t.Errorf("GET %s: status %d, %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/setup/you", "/setup/network", "/setup/port53", "/setup/nothing"} {
		if w := f.ask("POST", path, url.Values{"token": {"guess"}, "at": {ours.String()}}); w.Code != 403 {
			t.Errorf("POST %s: status %d, want 403", path, w.Code)
		}
	}
	for _, path := range []string{"/setup/connect", "/setup/first", "/setup/link", "/"} {
		if w := f.ask("GET", path, nil); w.Code != 403 {
			t.Errorf("GET %s: status %d, want 403", path, w.Code)
		}
	}
	last := 0
	for range 20 {
		last = f.ask("GET", "/setup?token=guess", nil).Code
	}
	if last != 429 {
		t.Errorf("after many guesses: status %d, want 429", last)
	}
	if len(f.wrote)+len(f.freed) > 0 {
		t.Errorf("guesses wrote %v and freed %v", f.wrote, f.freed)
	}
}

func TestMistakesStandBesideTheirField(t *testing.T) {
	f := newFirst(t)
	f.machine.Port53 = []lan.Holder{{Addr: netip.MustParseAddrPort("0.0.0.0:53"), Program: "dnsmasq"}, {Addr: netip.MustParseAddrPort("127.0.0.53:53"), Program: "systemd-resolved"}}
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ step, form, says string }{
		{"you", "name=&password=long+enough+1", "Write one short line"},
		{"you", "name=a:b&password=long+enough+1", "Write one short line"},
		{"you", "name=Oyuna&password=short", "the password has 5 characters"},
		{"you", "name=Oyuna&password=aaaaaaaaaaaa", "too easy to guess"},
		{"people", "who=zoo", "say who the network is for"},
		{"people", "who=home&network=" + long, "Write one short line"},
		{"people", "who=home&contact=a%0Ab", "Write one short line"},
		{"people", "who=home&device=192.168.1.31&person=10.0.0.1", "Write one short line"},
		{"people", "who=home&device=192.168.1.31&person=a,b", "Write one short line"},
		{"network", "way=pigeon", "how devices reach the filter"},
		{"network", "way=both&at=10.9.9.9", "no such address"},
		{"network", "way=both&at=192.168.1.20", "Free port 53 first"},
	} {
		f.post(c.step, c.form, 400, c.says)
	}
	if w := f.ask("GET", "/setup?token=secret&step=you", nil); w.Code != 200 || strings.Contains(w.Body.String(), "aaaaaaaaaaaa") {
		t.Errorf("the first page: status %d, or it shows the password", w.Code)
	}
	if len(f.wrote) > 0 {
		t.Errorf("mistakes wrote %+v", f.wrote)
	}
}

// TestAnswersStayWhileGoingBackAndForward: also those that are not right yet, and without a script.
func TestAnswersStayWhileGoingBackAndForward(t *testing.T) {
	f := newFirst(t)
	f.post("filter", "topic=ads", 303, "step=you") // the first page that is not answered
	f.answers("filter")
	f.post("filter", "topic=pastime&go=back", 303, "step=people")
	w := f.ask("GET", "/setup?token=secret&step=people", nil)
	for _, want := range []string{`value="School 5"`, `value="desk 3"`, `value="Anna"`, `value="school" checked`, `value="192.168.1.31" checked`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page of people lacks %s: %s", want, w.Body)
		}
	}
	w = f.ask("GET", "/setup?token=secret&step=filter", nil)
	if b := w.Body.String(); !strings.Contains(b, `value="pastime" checked`) || strings.Contains(b, `value="ads" checked`) || strings.Contains(b, `value="yes" checked`) {
		t.Errorf("the page of the filter does not have what was chosen: %s", b)
	}
	f.post("you", "name=Oyuna", 303, "step=people") // the password stays
	f.post("you", "name=x:y&go=back", 303, "step=you")
	f.post("people", "who=home", 303, "step=you") // which has a mistake now
	if len(f.wrote) > 0 {
		t.Errorf("%+v was written before the end", f.wrote)
	}
}

func TestTheFirstStepsEndSignedIn(t *testing.T) {
	f := newFirst(t)
	f.answers("network")
	f.refuses = errors.New("cannot listen on 192.168.1.20:8443")
	f.post("network", "way=both&at=192.168.1.20", 400, "Nothing is changed.")
	if some, _ := f.book.Any(); some || f.cookie != "" {
		t.Fatal("settings that were refused made an account")
	}
	f.refuses = nil
	f.post("network", "way=both&at=192.168.1.20&certificate=yes&domains=a+b,*.c", 400, "Write domains such as school.example")
	f.post("network", "way=both&at=192.168.1.20&certificate=yes&domains=school.example,+example.com&final=yes", 303, "/setup/connect")
	want := setup.Answers{Account: "Oyuna", Who: "school", Name: "School 5", Contact: "desk 3", Children: true, People: []setup.Person{{Name: "Anna", Addr: phone, Child: true}}, Topics: []string{"ads"}, SafeSearch: true, Proxy: true, DNS: true, At: ours, Upstreams: f.machine.Upstreams, Certificate: true, Domains: []string{"school.example", "example.com"}, Final: true}
	if len(f.wrote) != 1 || !reflect.DeepEqual(f.wrote[0], want) {
		t.Errorf("the answers are\n%+v, want\n%+v", f.wrote, want)
	}
	if one, err := f.book.One("Oyuna"); err != nil || one.Role != account.Owner {
		t.Errorf("the account is %+v, %v", one, err)
	}
	// The link is used, and the browser is signed in.
	if w := f.ask("POST", "/setup/you", url.Values{"token": {"secret"}, "name": {"eve"}, "password": {"long enough 2"}}); w.Code != 403 {
		t.Errorf("the link after the end: status %d, want 403", w.Code)
	}
	w := f.ask("GET", "/setup/connect", nil)
	for _, want := range []string{"Waiting for the next device", "<svg class=\"qr\"", "http://192.168.1.20/", "https://192.168.1.20:8443/", "easylist", `http-equiv="refresh"`} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page of the last step: status %d, or it lacks %s", w.Code, want)
		}
	}
	for device, want := range map[string]string{"router": "http://192.168.1.1/", "windows": "Network &amp; internet", "mac": "System Settings", "linux": "IPv4", "browser": "192.168.1.20:8080", "tv": "192.168.1.20"} {
		if w := f.ask("GET", "/setup/connect?device="+device, nil); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page for %s: status %d, want %q", device, w.Code, want)
		}
	}
	f.came = []setup.First{{Device: "iphone", Site: "apple.com", Query: true, At: time.Now(), Took: 14 * time.Millisecond}}
	if w := f.ask("GET", "/setup/connect", nil); !strings.Contains(w.Body.String(), "It works: <bdi>iphone</bdi> asked for <bdi>apple.com</bdi>") {
		t.Errorf("the first query is not shown: %s", w.Body)
	}
	if w := f.ask("POST", "/setup/end", nil); w.Code != 303 || w.Header().Get("Location") != "https://192.168.1.20:8443/setup/home" || f.ended != 1 {
		t.Errorf("the end: status %d to %q, ended %d times", w.Code, w.Header().Get("Location"), f.ended)
	}
	if w := f.ask("GET", "/setup/home", nil); w.Header().Get("Refresh") != "0; url=/" {
		t.Errorf("the way home: %v", w.Header())
	}
}

// TestTheFirstDeviceIsToldAsItComes: the stream sends the part of the page again when a device comes.
func TestTheFirstDeviceIsToldAsItComes(t *testing.T) {
	f := newFirst(t)
	f.answers("")
	f.came = []setup.First{{Device: "iphone", Site: "apple.com", Query: true, At: time.Now(), Took: 14 * time.Millisecond}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := httptest.NewServer(f.site)
	defer s.Close()
	r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/setup/first", nil)
	r.Header.Set("Cookie", f.cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := make([]byte, 4<<10)
	n, _ := res.Body.Read(b)
	if got := string(b[:n]); res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(got, "id: 1\ndata: ") || !strings.Contains(got, "apple.com") {
		t.Errorf("the stream is %q: %s", res.Header.Get("Content-Type"), got)
	}
}

func TestPort53IsFreedByAButton(t *testing.T) {
	f := newFirst(t)
	f.machine.Port53 = []lan.Holder{{Addr: netip.MustParseAddrPort("0.0.0.0:53"), Program: "dnsmasq"}}
	f.answers("network")
	if w := f.ask("GET", "/setup?token=secret&step=network", nil); !strings.Contains(w.Body.String(), `formaction="/setup/port53"`) || !strings.Contains(w.Body.String(), "dnsmasq at 0.0.0.0:53") {
		t.Errorf("the page does not say who has port 53: %s", w.Body)
	}
	f.post("port53", "way=dns&at=10.9.9.9", 400, "no such address")
	f.refuses = lan.ErrRight
	f.post("port53", "way=dns&at=192.168.1.20", 400, "sudo shuultuur setup -free-port53")
	f.refuses = nil
	f.post("port53", "way=dns&at=192.168.1.20", 303, "step=network")
	if len(f.freed) != 2 || f.freed[1] != ours {
		t.Errorf("freed for %v", f.freed)
	}
	if w := f.ask("GET", "/setup?token=secret&step=network", nil); !strings.Contains(w.Body.String(), "Port 53 is free") || !strings.Contains(w.Body.String(), `value="dns" checked`) {
		t.Errorf("the page after it was freed: %s", w.Body)
	}
	f.machine.Port53 = []lan.Holder{{Addr: netip.MustParseAddrPort("127.0.0.53:53"), Program: "systemd-resolved"}}
	if w := f.ask("GET", "/setup?token=secret&step=network", nil); !strings.Contains(w.Body.String(), "goes on beside it") {
		t.Errorf("what does not stand in the way: %s", w.Body)
	}
}

// TestAnAccountMadeElsewhereEndsTheLink: the link must not make a second owner.
func TestAnAccountMadeElsewhereEndsTheLink(t *testing.T) {
	f := newFirst(t)
	f.answers("network")
	if err := f.book.Add("boss", account.Owner, nil, "long enough 3"); err != nil {
		t.Fatal(err)
	}
	f.post("network", "way=both&at=192.168.1.20", 403, "not good")
	if len(f.wrote) > 0 {
		t.Errorf("%+v was written", f.wrote)
	}
}
