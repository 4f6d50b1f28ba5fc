package settings

import (
	"slices"
	"testing"

	"shuultuur/policy/schedule"
	"shuultuur/text"
)

// TestTimesAreTheFewestWindows: a schedule, as rows and back.
func TestTimesAreTheFewestWindows(t *testing.T) {
	for name, c := range map[string]struct{ in, want schedule.Schedule }{
		"none":                              {nil, nil},
		"days":                              {schedule.Schedule{{Days: "monday-friday"}}, schedule.Schedule{{Days: "mon-fri"}}},
		"every day":                         {schedule.Schedule{{Days: "sun-sat"}}, schedule.Schedule{{}}},
		"hours that touch":                  {schedule.Schedule{{Hours: "8:00-12:00,12:00-13:30"}}, schedule.Schedule{{Hours: "08:00-13:30"}}},
		"hours in another order":            {schedule.Schedule{{Hours: "13:00-14:00, 8:00-9:00"}}, schedule.Schedule{{Hours: "08:00-09:00,13:00-14:00"}}},
		"past midnight":                     {schedule.Schedule{{Days: "fri,sat", Hours: "22:00-6:00"}}, schedule.Schedule{{Days: "fri,sat", Hours: "22:00-06:00"}}},
		"days of the same hours":            {schedule.Schedule{{Days: "mon", Hours: "8:00-9:00"}, {Days: "tue", Hours: "8:00-9:00"}, {Days: "thu", Hours: "8:00-9:00"}}, schedule.Schedule{{Days: "mon,tue,thu", Hours: "08:00-09:00"}}},
		"hours of the same days":            {schedule.Schedule{{Days: "mon", Hours: "8:00-9:00"}, {Days: "mon", Hours: "10:00-11:00"}}, schedule.Schedule{{Days: "mon", Hours: "08:00-09:00,10:00-11:00"}}},
		"dates are kept, and are not mixed": {schedule.Schedule{{Hours: "8:00-9:00"}, {Hours: "9:00-10:00", Dates: "not 2026-12-24..2027-01-06"}}, schedule.Schedule{{Hours: "08:00-09:00"}, {Hours: "09:00-10:00", Dates: "not 2026-12-24..2027-01-06"}}},
		"zones are kept":                    {schedule.Schedule{{Hours: "8:00-9:00", Zone: "Europe/Berlin"}}, schedule.Schedule{{Hours: "08:00-09:00", Zone: "Europe/Berlin"}}},
		"until midnight":                    {schedule.Schedule{{Hours: "20:00-0:00"}}, schedule.Schedule{{Hours: "20:00-24:00"}}},
		"five numbers":                      {schedule.Schedule{{Old: "9 0 16 59 01234"}}, schedule.Schedule{{Days: "mon-fri", Hours: "09:00-17:00"}}},
	} {
		rows, err := timeRowsOf(c.in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := scheduleOf(rows)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
		again, err := timeRowsOf(got)
		if err != nil || len(c.in) > 0 && len(again) == 0 {
			t.Errorf("%s: read again it is %+v, %v", name, again, err)
		}
	}
}

// TestSentencesHaveTheOrderOfTheLanguage: what was chosen stands where the language wants it.
func TestSentencesHaveTheOrderOfTheLanguage(t *testing.T) {
	all, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fieldsIn("{action: block, category: [games, social], schedule: {days: mon-fri, hours: '8:00-15:00'}}", ruleKeys)
	if err != nil {
		t.Fatal(err)
	}
	for lang, want := range map[string]string{
		"en": "Block Games and Social networks, Mon–Fri 08:00–15:00",
		"de": "Spiele und Soziale Netze blockieren, Mo–Fr 08:00–15:00",
		"ru": "Блокировать: Игры и Социальные сети, Пн–Пт 08:00–15:00",
	} {
		if got := plainSentence(f.sentence(all.For(lang))); got != want {
			t.Errorf("%s: %s, want %s", lang, got, want)
		}
	}
	limit, err := fieldsIn("{service: youtube, time: 1h30m, bytes: 500MB}", quotaKeys)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plainSentence(limit.limitSentence(all.For("en"))), "YouTube: 90 minutes and 500MB a day"; got != want {
		t.Errorf("a limit is %q, want %q", got, want)
	}
}
