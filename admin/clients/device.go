package clients

import (
	"slices"
	"strings"

	"shuultuur/event"
	"shuultuur/text"
)

// A deviceKind is what a device seems to be. The zero kind is unknown.
type deviceKind struct {
	Name, Icon string
	// Thing: nobody carries it about, so it is not proposed to be somebody's.
	Thing bool
}

var (
	phone    = deviceKind{text.Mark("Phone"), "phone", false}
	tablet   = deviceKind{text.Mark("Tablet"), "tablet", false}
	laptop   = deviceKind{text.Mark("Laptop"), "laptop", false}
	computer = deviceKind{text.Mark("Computer"), "desktop", false}
	apple    = deviceKind{text.Mark("Apple device"), "phone", false}
	android  = deviceKind{text.Mark("Phone or tablet"), "phone", false}
	console  = deviceKind{text.Mark("Game console"), "game", true}
	tv       = deviceKind{text.Mark("Television"), "tv", true}
	printer  = deviceKind{text.Mark("Printer"), "printer", true}
	speaker  = deviceKind{text.Mark("Speaker"), "speaker", true}
	camera   = deviceKind{text.Mark("Camera"), "camera", true}
	light    = deviceKind{text.Mark("Lights and sensors"), "bulb", true}
	server   = deviceKind{text.Mark("Server"), "server", true}
	router   = deviceKind{text.Mark("Router"), "router", true}
	unknown  = deviceKind{text.Mark("Device"), "device", false}
)

// nameSigns say by a part of its own name what a device is; the first that fits counts. A part that
// begins with ^ is the beginning of the name.
var nameSigns = []struct {
	kind  deviceKind
	parts []string
}{
	{printer, []string{"laserjet", "officejet", "deskjet", "envy-", "printer", "^epson", "^canon", "^brn", "^brw", "^lexmark", "^kyocera", "^xerox"}},
	{tv, []string{"chromecast", "google-tv", "appletv", "apple-tv", "firetv", "fire-tv", "^roku", "bravia", "webostv", "lgwebos", "samsung-tv", "smarttv", "smart-tv", "android-tv", "androidtv", "^shield"}},
	{console, []string{"playstation", "^ps3", "^ps4", "^ps5", "xbox", "nintendo", "steamdeck", "steam-deck"}},
	{camera, []string{"camera", "ipcam", "^reolink", "^hikvision", "^wyze", "doorbell"}},
	{speaker, []string{"^sonos", "homepod", "^echo-", "alexa", "google-home", "nest-mini", "^bose"}},
	{light, []string{"^hue-", "philips-hue", "^shelly", "tasmota", "^esp_", "^esp-", "^esp8266", "^esp32", "^tuya", "^wled", "thermostat", "^tado"}},
	{router, []string{"fritz.box", "fritzbox", "^openwrt", "router", "^unifi", "repeater", "accesspoint"}},
	{server, []string{"^nas", "synology", "diskstation", "^qnap", "truenas", "raspberrypi", "proxmox", "homeassistant", "home-assistant"}},
	{tablet, []string{"ipad", "tablet", "galaxy-tab", "kindle"}},
	{phone, []string{"iphone", "galaxy", "pixel-", "^pixel", "redmi", "^xiaomi", "oneplus", "huawei-p", "^oppo", "^vivo-", "^moto", "^sm-", "phone"}},
	{laptop, []string{"macbook", "laptop", "notebook", "thinkpad", "chromebook", "latitude", "elitebook", "surface"}},
	{computer, []string{"^desktop-", "^win-", "^pc-", "-pc", "imac", "mac-mini", "macmini", "mac-studio", "workstation"}},
	{android, []string{"^android"}},
}

// siteSigns say what a device is by sites that only such devices ask by themselves. Sites that apps
// ask on a phone, too, are none.
var siteSigns = []struct {
	kind  deviceKind
	sites []string
}{
	{printer, []string{"hpeprint.com", "epsonconnect.com", "mobile.brother.com"}},
	{tv, []string{"samsungcloudsolution.com", "samsungcloudsolution.net", "samsungotn.net", "lgtvsdp.com", "lgsmartad.com", "logs.roku.com", "fireoscaptiveportal.com", "tvsideview.sony.net"}},
	{console, []string{"np.playstation.net", "ps5.update.playstation.net", "ps4.update.playstation.net", "conntest.nintendowifi.net", "ctest.cdn.nintendo.net", "xboxexperiencesprod.experimentation.xboxlive.com"}},
	{camera, []string{"wyzecam.com", "reolink.com", "hik-connect.com"}},
	{speaker, []string{"ws.sonos.com", "device-metrics-us.amazon.com", "avs-alexa-eu.amazon.com"}},
	{light, []string{"meethue.com", "shelly.cloud", "tuyaeu.com", "tuyaus.com", "tuyacn.com"}},
	{computer, []string{"msftconnecttest.com", "msftncsi.com", "settings-win.data.microsoft.com", "connectivity-check.ubuntu.com", "nmcheck.gnome.org"}},
	{apple, []string{"captive.apple.com", "gs-loc.apple.com", "mesu.apple.com"}},
	{android, []string{"connectivitycheck.gstatic.com", "connectivitycheck.android.com", "android.clients.google.com"}},
}

// kindByName returns the kind that a device's own name says.
func kindByName(name string) (deviceKind, bool) {
	name = strings.ReplaceAll(strings.ToLower(name), " ", "-")
	for _, s := range nameSigns {
		for _, part := range s.parts {
			begin, first := strings.CutPrefix(part, "^")
			if first && strings.HasPrefix(name, begin) || !first && strings.Contains(name, part) {
				return s.kind, true
			}
		}
	}
	return unknown, false
}

// askKinds returns questions about who asks for the sites that say what a device is, one for each of siteSigns.
func askKinds(f event.Filter) (all []event.Question, err error) {
	for _, s := range siteSigns {
		x := f
		x.Terms = slices.Clone(f.Terms)
		if err := x.And(event.Host, false, s.sites...); err != nil {
			return nil, err
		}
		all = append(all, event.Question{Filter: x, By: event.Client, Top: maxClients})
	}
	return all, nil
}

// kindsOf reads the answers to askKinds. A device of several kinds is of the first.
func kindsOf(answers [][]event.Tally) map[string]deviceKind {
	all := map[string]deviceKind{}
	for i, tallies := range answers {
		for _, t := range tallies {
			if _, known := all[t.Name]; !known {
				all[t.Name] = siteSigns[i].kind
			}
		}
	}
	return all
}

// ownerOf returns the person whose name is in a device's own name, such as Annas-iPhone; "" if there
// is none, or if there are several.
func ownerOf(device string, people []string) (owner string) {
	words := strings.FieldsFunc(strings.ToLower(device), func(r rune) bool { return strings.ContainsRune("-_.' \u2019", r) })
	for _, p := range people {
		name := strings.ToLower(p)
		if len(name) < 3 || !slices.ContainsFunc(words, func(w string) bool { return w == name || w == name+"s" }) {
			continue
		}
		if owner != "" {
			return ""
		}
		owner = p
	}
	return owner
}
