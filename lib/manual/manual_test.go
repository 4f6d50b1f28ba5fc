package manual

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func kettle() *Program {
	flags := flag.NewFlagSet("boil", flag.ContinueOnError)
	flags.Int("degrees", 100, "`heat` of the water")
	flags.Bool("quiet", false, "do not whistle")
	return &Program{
		Name: "kettle", Summary: "boils water", Version: "1.0", Made: time.Unix(0, 0).UTC(), Files: [][2]string{{"/etc/kettle", "the settings"}},
		Commands: []Page{
			{Name: "boil", Args: "[flags] fast|slow", What: "\nBoils water.\n\n  kettle boil fast\n\n.is no macro", Summary: "boil water", Flags: flags},
			{Name: "tea", Args: "COMMAND", What: "Makes tea.", Summary: "make tea"},
			{Name: "tea pour", Args: "KIND", What: "Pours it.", Summary: "pour", Choices: []string{"green", "black"}},
		},
	}
}

func TestPagesSayWhatCommandsAre(t *testing.T) {
	dir := t.TempDir()
	if err := kettle().WritePages(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"kettle.1":          {".TH KETTLE 1 1970-01-01 1.0 Kettle", ".B tea pour\npour", ".I /etc/kettle\nthe settings"},
		"kettle-boil.1":     {`kettle\-boil \- boil water`, ".nf\n  kettle boil fast\n.fi", `\&.is no macro`, `.BI \-degrees " heat"`},
		"kettle-tea-pour.1": {".B kettle tea pour\nKIND", ".BR kettle (1)"},
	} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(page), w) {
				t.Errorf("%s lacks %q:\n%s", name, w, page)
			}
		}
	}
}

func TestScriptsCompleteCommandsFlagsAndChoices(t *testing.T) {
	for shell, want := range map[string][]string{
		"zsh":  {"#compdef kettle", "'tea pour') list='green black'", "'boil '*) list='fast slow -degrees -quiet' takes='-degrees'"},
		"fish": {"complete -c kettle -n '__fish_use_subcommand' -a boil -d 'boil water'", "-o degrees -r -d 'heat of the water'", "-a 'green'"},
	} {
		script, ok := kettle().Completion(shell)
		for _, w := range want {
			if !ok || !strings.Contains(script, w) {
				t.Errorf("%s lacks %q:\n%s", shell, w, script)
			}
		}
	}
	if _, ok := kettle().Completion("ksh"); ok {
		t.Error("there is a script for ksh")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script, _ := kettle().Completion("bash")
	got, err := exec.Command(bash, "-c", script+`
for line in "kettle te" "kettle tea po" "kettle tea pour gr" "kettle boil -q"; do
	read -ra COMP_WORDS <<< "$line"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kettle; echo "${COMPREPLY[*]}"
done`).CombinedOutput()
	if want := "tea\npour\ngreen\n-quiet\n"; err != nil || string(got) != want {
		t.Errorf("bash completes %q, %v, want %q", got, err, want)
	}
}
