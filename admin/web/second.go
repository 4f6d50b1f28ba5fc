package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// secondTime is how long a change waits for the second person.
const secondTime = time.Hour

// maxSecond bounds the changes that wait.
const maxSecond = 1000

// A seconds has the changes that wait for a second person, because they weaken the rule that two
// people are needed to look into a person's browsing. Both make the same change. They are kept in
// memory: a restart forgets them.
type seconds struct {
	mu  sync.Mutex
	all map[string]asked
}

type asked struct {
	by string
	at time.Time
}

// A NeedsSecond is a change that the first of two people has asked for.
type NeedsSecond struct{ What string }

func (e *NeedsSecond) Error() string {
	return fmt.Sprintf("%s: two people are needed for this (access.two-people): another owner has to make the same change within %d minutes", e.What, int(secondTime.Minutes()))
}

// Second returns nil if a change may be made: two people are not needed, or another person than the
// user has asked for the same. what names the change for people, and same has everything that it
// sets. Whoever sits at the gateway's machine may change its files anyway.
func (s *Site) Second(r *http.Request, what, same string) error {
	who := UserOf(r)
	if !s.NeedsTwo() || who.Via == "machine" {
		return nil
	}
	if who.Via == "settings" {
		return &NotOwn{errors.New(what + ": a person has to do this, not the token of the settings: two people are needed")}
	}
	key := what + "\n" + same
	by := strings.ToLower(who.Name)
	s.second.mu.Lock()
	defer s.second.mu.Unlock()
	for k, a := range s.second.all {
		if time.Since(a.at) >= secondTime {
			delete(s.second.all, k)
		}
	}
	if a, ok := s.second.all[key]; ok && a.by != by {
		delete(s.second.all, key)
		return nil
	}
	if s.second.all == nil {
		s.second.all = map[string]asked{}
	}
	if len(s.second.all) >= maxSecond {
		clear(s.second.all)
	}
	s.second.all[key] = asked{by, time.Now()}
	return &NeedsSecond{what}
}
