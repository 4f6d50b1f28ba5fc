package clients

import (
	"testing"

	"shuultuur/event"
)

func TestADeviceIsKnownByItsNameOrTheSitesThatItAsks(t *testing.T) {
	for name, want := range map[string]string{
		"Annas-iPhone": "Phone", "Galaxy-A54": "Phone", "Galaxy Tab S9": "Tablet", "HP-LaserJet-M110": "Printer", "PS5-123": "Game console",
		"DESKTOP-7A": "Computer", "MacBook-Air": "Laptop", "Chromecast": "Television", "shelly1-AB": "Lights and sensors", "android-12": "Phone or tablet", "": "Device", "kitchen": "Device", "caps5": "Device",
	} {
		if k, known := kindByName(name); k.Name != want || known != (want != "Device") {
			t.Errorf("%q is %s, known %v; want %s", name, k.Name, known, want)
		}
	}
	questions, err := askKinds(event.Filter{})
	if err != nil || len(questions) != len(siteSigns) {
		t.Fatalf("%d questions, %v", len(questions), err)
	}
	answers := make([][]event.Tally, len(questions))
	answers[0], answers[len(answers)-1] = []event.Tally{{Name: "10.0.0.1"}}, []event.Tally{{Name: "10.0.0.1"}, {Name: "10.0.0.2"}}
	kinds := kindsOf(answers)
	if kinds["10.0.0.1"] != printer || kinds["10.0.0.2"] != android || kinds["10.0.0.3"].Name != "" {
		t.Errorf("by their sites they are %v", kinds)
	}
}

func TestANewDeviceIsProposedToWhomItNames(t *testing.T) {
	people := []string{"Anna", "Bolor", "Al", "Anna2"}
	for device, want := range map[string]string{"Annas-iPhone": "Anna", "iPhone von Anna": "Anna", "bolor_laptop": "Bolor", "Savanna-PC": "", "al-phone": "", "Anna-and-Bolor": "", "": "", "anna’s iPad": "Anna"} {
		if got := ownerOf(device, people); got != want {
			t.Errorf("%q is proposed to %q, want %q", device, got, want)
		}
	}
}
