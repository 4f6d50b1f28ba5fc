package system

import (
	"slices"
	"testing"

	"shuultuur/lib/problem"
	"shuultuur/text"
)

func TestAProblemIsASentenceWithAWayToMendIt(t *testing.T) {
	texts, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	everywhere := func(string) bool { return true }
	h := Health{}
	h.Say([]problem.Problem{
		{Kind: problem.Awaited, Text: "3 lists have not been fetched yet and are empty: a, b, c"},
		{Kind: problem.Lists, Text: "list a: status 500"}, {Kind: problem.Disk, Text: "events: no space left on device"},
		{Kind: problem.Lists, Text: "list b: status 404"}, {Kind: "new-in-a-later-version", Text: "something that nobody has heard of"},
	})
	all := TasksOf(&h, texts.For("en"), everywhere)
	type said struct{ title, to string }
	var got []said
	for _, task := range all {
		got = append(got, said{task.Title, task.To})
	}
	want := []said{{"Some lists are not here yet", "/lists"}, {"Some lists need a look", "/lists"}, {"There is no room on the disk", "/system"}, {"something that nobody has heard of", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("the sentences are %q, want %q", got, want)
	}
	if !slices.Equal(all[1].Details, []string{"list a: status 500", "list b: status 404"}) || len(all[3].Details) > 0 || !all[2].Urgent {
		t.Errorf("the tasks are %+v, want both lists behind one sentence", all)
	}
	if german := TasksOf(&h, texts.For("de"), everywhere); german[2].Title == all[2].Title {
		t.Errorf("in German it is %q", german[2].Title)
	}
	for _, task := range TasksOf(&h, texts.For("en"), func(string) bool { return false }) {
		if task.To != "" || task.Do != "" {
			t.Errorf("%q leads to %q, which its reader may not see", task.Title, task.To)
		}
	}
	older := Health{Problems: []string{"a disk is full"}} // a gateway that says no kinds
	if all := TasksOf(&older, texts.For("en"), everywhere); len(all) != 1 || all[0].Title != "a disk is full" {
		t.Errorf("an older gateway says %+v", all)
	}
}

func TestEveryKindHasASentence(t *testing.T) {
	for kind, s := range sentences {
		if s.title == "" || s.icon == "" || s.to == "" || s.do == "" {
			t.Errorf("%s: %+v lacks something", kind, s)
		}
	}
	for _, kind := range problem.All {
		if _, ok := sentences[kind]; !ok {
			t.Errorf("there is no sentence for %q", kind)
		}
	}
	for _, w := range wellOf(&Health{}) {
		for _, kind := range w.unless {
			if _, ok := sentences[kind]; !ok {
				t.Errorf("%q ends with %q, which is no kind", w.Title, kind)
			}
		}
	}
	if n := len(wellOf(&Health{Kinds: []problem.Kind{problem.Lists}})); n != len(wellOf(&Health{}))-1 {
		t.Errorf("with a list that fails, %d things are good", n)
	}
}
