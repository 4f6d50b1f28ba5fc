package web

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/text"
)

// A Task waits for somebody. The inbox and the start page show it, and the menu counts it.
type Task struct {
	Icon    string      `json:"-"`
	Verdict string      `json:"-"` // gives it a colour
	Title   string      `json:"title"`
	More    string      `json:"more,omitempty"`
	At      time.Time   `json:"at,omitzero"` // zero: unknown
	To      string      `json:"to"`          // where it is done
	Do      string      `json:"-"`           // the button that leads there
	Form    []FormField `json:"form,omitempty"`
	Act     string      `json:"act,omitempty"`  // the button of the form; "": there is none
	Path    string      `json:"path,omitempty"` // where the form is sent
	N       int         `json:"n,omitempty"`    // how many things it stands for; 0 is one
	Urgent  bool        `json:"urgent,omitempty"`
	Details []string    `json:"details,omitempty"` // what the program says, behind the title
	Trouble bool        `json:"-"`                 // it is one of /health
}

// A FormField is a hidden field of a form.
type FormField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A TaskSource finds tasks for those who may see a page.
type TaskSource struct {
	Page  string
	Tasks func(ctx context.Context, who *account.Who, t *text.Texts) []Task
	// Slow sources are not asked for the figures of the menu, which has their last answer.
	Slow bool
}

// Tasks are kept for this long, so that many pages cost as much as one. A change forgets them.
const keepTasks = 10 * time.Second

// tasks remembers what was found.
type tasks struct {
	mu    sync.Mutex
	found map[tasksKey]tasksFound // guarded by mu
}

type tasksKey struct{ page, who string }

type tasksFound struct {
	n     int
	until time.Time
}

// maxFound bounds the memory of users.
const maxFound = 1000

func (t *tasks) note(k tasksKey, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil || len(t.found) >= maxFound {
		t.found = map[tasksKey]tasksFound{}
	}
	t.found[k] = tasksFound{n, time.Now().Add(keepTasks)}
}

func (t *tasks) known(k tasksKey) (tasksFound, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.found[k]
	return f, ok
}

// expire has everything asked anew.
func (t *tasks) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, f := range t.found {
		f.until = time.Time{}
		t.found[k] = f
	}
}

// TasksFor returns what waits for the user of a page or program, the most urgent first.
func (s *Site) TasksFor(w http.ResponseWriter, r *http.Request) []Task {
	all, _ := s.Waiting(w, r)
	return all
}

// Waiting returns what waits for the user, the most urgent first, and how much of it each page has.
func (s *Site) Waiting(w http.ResponseWriter, r *http.Request) (all []Task, counts map[string]int) {
	p := personalOf(w)
	if p == nil { // a program
		p = &pageWriter{ResponseWriter: w, server: s, asked: r, who: UserOf(r), texts: s.Texts.For(r.Header.Get("Accept-Language"))}
	}
	counts = map[string]int{}
	if p.who == nil {
		return nil, counts
	}
	for _, source := range s.TaskSources {
		if !p.may(source.Page) {
			continue
		}
		some := s.ask(r.Context(), p, source)
		all = append(all, some...)
		for i := range some {
			counts[source.Page] += max(1, some[i].N)
		}
	}
	slices.SortStableFunc(all, func(a, b Task) int {
		switch {
		case a.Urgent == b.Urgent:
			return 0
		case a.Urgent:
			return -1
		}
		return 1
	})
	return all, counts
}

func (s *Site) ask(ctx context.Context, p *pageWriter, source TaskSource) []Task {
	all := source.Tasks(ctx, p.who, p.texts)
	n := 0
	for i := range all {
		n += max(1, all[i].N)
	}
	s.tasks.note(tasksKey{source.Page, p.who.Name}, n)
	return all
}

// waiting returns how much waits for the user on each page.
func (s *Site) waiting(p *pageWriter) map[string]int {
	n := map[string]int{}
	for _, source := range s.TaskSources {
		if !p.may(source.Page) {
			continue
		}
		k := tasksKey{source.Page, p.who.Name}
		f, ok := s.tasks.known(k)
		if !source.Slow && (!ok || time.Now().After(f.until)) {
			s.ask(p.asked.Context(), p, source)
			f, _ = s.tasks.known(k)
		}
		n[source.Page] += f.n
	}
	return n
}
