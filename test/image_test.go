package test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"shuultuur/test/peer"
)

// released runs a command in an environment that fixes the time of the release, and returns its
// output.
func released(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// twice makes a file by a command two times and checks that the bytes are the same.
func twice(t *testing.T, file string, make func() (args []string)) []byte {
	t.Helper()
	var archives [2][]byte
	for i := range archives {
		released(t, make()...)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = b
		os.Remove(file)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Fatalf("%s has other bytes when it is made again", filepath.Base(file))
	}
	return archives[0]
}

// untar returns the files of an archive, and the headers of its entries.
func untar(t *testing.T, archive []byte) (files map[string][]byte, heads map[string]*tar.Header) {
	t.Helper()
	files, heads = map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, heads
		}
		if err != nil {
			t.Fatal(err)
		}
		if heads[h.Name] != nil {
			t.Errorf("the archive has %s twice", h.Name)
		}
		heads[h.Name] = h
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// An imageConfig has the parts of the image that a container engine reads.
type imageConfig struct {
	Architecture, OS string
	Config           struct {
		User            string
		WorkingDir      string
		Entrypoint, Cmd []string
		Volumes         map[string]any
		Healthcheck     struct{ Test []string }
	}
	Rootfs struct {
		Diffs []string `json:"diff_ids"`
	}
}

// readImage reads an image as container engines do: from the index by digests to the layer.
func readImage(t *testing.T, archive []byte) (config imageConfig, layer []byte) {
	t.Helper()
	files, _ := untar(t, archive)
	type descriptor struct {
		MediaType, Digest string
		Size              int
	}
	blob := func(d descriptor) []byte {
		b := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if sum := sha256.Sum256(b); d.Digest != "sha256:"+hex.EncodeToString(sum[:]) || len(b) != d.Size {
			t.Fatalf("blob %s of %s has %d bytes or another digest, want %d bytes", d.Digest, d.MediaType, len(b), d.Size)
		}
		return b
	}
	read := func(b []byte, v any) {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("decoding JSON: %v in %.200q", err, b)
		}
	}
	var index struct{ Manifests []descriptor }
	if read(files["index.json"], &index); len(index.Manifests) != 1 || len(files["oci-layout"]) == 0 {
		t.Fatalf("the index is not that of an image layout: %s", files["index.json"])
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if read(blob(index.Manifests[0]), &manifest); len(manifest.Layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(manifest.Layers))
	}
	read(blob(manifest.Config), &config)
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
	if err == nil {
		layer, err = io.ReadAll(z)
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(layer); !slices.Equal(config.Rootfs.Diffs, []string{"sha256:" + hex.EncodeToString(sum[:])}) {
		t.Errorf("the configuration names the layers %q, which is not the digest of the layer", config.Rootfs.Diffs)
	}
	return config, layer
}

// TestOneImageIsForSeveralProcessors: an engine finds in the archive an index with the image of each, as
// it is in its own archive.
func TestOneImageIsForSeveralProcessors(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(in("settings"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"amd64": "one", "arm64": "two", "ca.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "settings/shuultuur.yaml": "x"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool := in("image")
	released(t, "go", "build", "-o", tool, "../dist/image")
	own := map[string]map[string][]byte{}
	for _, arch := range []string{"amd64", "arm64"} {
		released(t, tool, "1.2.3", arch, in(arch), in("settings"), in("ca.crt"), in(arch+".tar"))
		b, err := os.ReadFile(in(arch + ".tar"))
		if err != nil {
			t.Fatal(err)
		}
		own[arch], _ = untar(t, b)
	}
	files, _ := untar(t, twice(t, in("all.tar"), func() []string {
		return []string{tool, "join", in("all.tar"), in("amd64.tar"), in("arm64.tar")}
	}))
	type descriptor struct {
		MediaType, Digest string
		Platform          struct{ Architecture, OS string }
	}
	read := func(b []byte) (all []descriptor) {
		t.Helper()
		var index struct{ Manifests []descriptor }
		if err := json.Unmarshal(b, &index); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		return index.Manifests
	}
	blob := func(d descriptor) []byte { return files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")] }
	outer := read(files["index.json"])
	if len(outer) != 1 || outer[0].MediaType != "application/vnd.oci.image.index.v1+json" {
		t.Fatalf("the archive has %+v", outer)
	}
	images := read(blob(outer[0]))
	if len(images) != len(own) {
		t.Fatalf("the index has %+v", images)
	}
	for _, image := range images {
		if p := image.Platform; p.OS != "linux" || own[p.Architecture] == nil || len(blob(image)) == 0 {
			t.Errorf("the index has %+v", image)
		}
	}
	for arch, all := range own {
		for name, b := range all {
			if strings.HasPrefix(name, "blobs/") && !bytes.Equal(b, files[name]) {
				t.Errorf("%s of the image for %s is another one", name, arch)
			}
		}
	}
	if skopeo, err := exec.LookPath("skopeo"); err == nil {
		if err := exec.Command(tool, "join", in("all.tar"), in("amd64.tar"), in("arm64.tar")).Run(); err != nil {
			t.Fatal(err)
		}
		for arch := range own {
			if got := released(t, skopeo, "inspect", "--override-arch", arch, "--config", "oci-archive:"+in("all.tar")); !strings.Contains(got, arch) {
				t.Errorf("skopeo prints for %s %s", arch, got)
			}
		}
	}
}

// TestTheReleaseHasWhatPeopleTake: the script of the release copies these files as they are.
func TestTheReleaseHasWhatPeopleTake(t *testing.T) {
	script, err := os.ReadFile("../dist/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"dist/docker/compose.*.yaml", "dist/monitoring/alerts.yml", "dist/monitoring/grafana.json", "dist/helm/package.sh", "image\" join"} {
		if !strings.Contains(string(script), part) {
			t.Errorf("dist/build.sh leaves out %s", part)
		}
	}
}

// TestTheImageFiltersAPage packs the container image, reads it as an engine does, and runs it
// by its configuration, in its own root folder and as its own user.
func TestTheImageFiltersAPage(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "another build of the program")
	dir := t.TempDir()
	program := filepath.Join(dir, "shuultuur")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "../cmd/shuultuur")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // nothing else is in the image
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v, %s", err, out)
	}
	tool, settings, out := filepath.Join(dir, "image"), filepath.Join(dir, "settings"), filepath.Join(dir, "image.tar")
	authorities := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(authorities, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	released(t, "go", "build", "-o", tool, "../dist/image")
	released(t, "sh", "../dist/docker/settings.sh", program, settings)
	archive := twice(t, out, func() []string {
		return []string{tool, "1.2.3", "amd64", program, settings, authorities, out}
	})
	config, layer := readImage(t, archive)
	if got := config.Config.WorkingDir; got != "/etc/shuultuur" {
		t.Errorf("commands in the container look for settings in %q", got)
	}
	if c := config.Config; c.User != "1000:0" || len(c.Volumes) != 2 || len(c.Healthcheck.Test) < 2 || c.Healthcheck.Test[0] != "CMD" {
		t.Errorf("the image has the configuration %+v", c)
	}
	if skopeo, err := exec.LookPath("skopeo"); err == nil {
		if err := os.WriteFile(out, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"oci-archive:", "docker-archive:"} {
			if got := released(t, skopeo, "inspect", "--config", kind+out); !strings.Contains(got, "1000:0") {
				t.Errorf("skopeo prints for %s %s", kind, got)
			}
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run a program in another root folder")
	}
	s := unpackImage(t, layer)
	// Some platforms choose the user, and leave group 0.
	self := &syscall.SysProcAttr{Chroot: filepath.Dir(s.dir), Credential: &syscall.Credential{Uid: 1_000_650_000, Gid: 0}}
	cmd := exec.Command(config.Config.Entrypoint[0], config.Config.Cmd...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = self, "/", []string{"PATH=/usr/bin"}
	// exec looks for the program here, not in the new root folder.
	cmd.Err = nil
	s.startIn(cmd)
	s.wait("a filtered page", func() bool {
		status, _, err := get(through(s.proxy), "http://ads.doubleclick.net/")
		return err == nil && status == 403
	})
	healthy := func() error {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		check := exec.CommandContext(ctx, config.Config.Healthcheck.Test[1], config.Config.Healthcheck.Test[2:]...)
		check.SysProcAttr, check.Dir, check.Err = self, "/", nil
		out, err := check.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := healthy(); err != nil {
		t.Errorf("the health check fails although the gateway runs: %v", err)
	}
	// This is what "docker compose exec shuultuur shuultuur pause" does.
	pause := exec.Command("/usr/bin/shuultuur", "pause")
	pause.SysProcAttr, pause.Dir, pause.Err = self, config.Config.WorkingDir, nil
	if out, err := pause.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("filtering is on")) {
		t.Errorf("running a command in the container: %v, %s", err, out)
	}
	_ = cmd.Process.Kill()
	s.wait("the end", func() bool { return healthy() != nil })
}

// unpackImage makes the root folder of a container, whose gateway listens on ports that are
// free on this machine.
func unpackImage(t *testing.T, layer []byte) *shipped {
	t.Helper()
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // the image's user must be able to enter it
	}
	files, heads := untar(t, layer)
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "usr/bin/shuultuur", "etc/shuultuur/shuultuur.yaml", "var/lib/shuultuur/", "tmp/"} {
		if heads[name] == nil {
			t.Errorf("the layer has no %s", name)
		}
	}
	names := make([]string, 0, len(heads))
	for name := range heads {
		names = append(names, name)
	}
	slices.Sort(names)
	s := &shipped{t: t, dir: filepath.Join(root, "data"), proxy: "127.0.0.1:" + peer.Port(t)}
	for _, name := range names {
		h, path := heads[name], filepath.Join(root, name)
		text := files[name]
		if name == "etc/shuultuur/shuultuur.yaml" {
			if !bytes.Contains(text, []byte(`listen: {proxy: ":8080"`)) || !bytes.Contains(text, []byte(`listen: [":8053"]`)) {
				t.Errorf("replacing the ports of the container failed in\n%s", text)
			}
			text = bytes.Replace(text, []byte(`":8080"`), []byte(s.proxy), 1)
			text = regexp.MustCompile(`127\.0\.0\.1:8081|:8053`).ReplaceAllFunc(text, func([]byte) []byte { return []byte("127.0.0.1:" + peer.Port(t)) })
		}
		var err error
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, text, 0o600)
		}
		if err == nil {
			err = errors.Join(os.Chmod(path, h.FileInfo().Mode()), os.Chown(path, h.Uid, h.Gid))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Container engines write this file with their name servers. The test sends this one no
	// query.
	if err := os.WriteFile(filepath.Join(root, "etc/resolv.conf"), []byte("nameserver 192.0.2.53\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// startIn runs cmd until the test ends.
func (s *shipped) startIn(cmd *exec.Cmd) {
	s.t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // it is killed
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if <-ended; s.t.Failed() {
			s.t.Logf("log of the program:\n%s", log.Bytes())
		}
	})
}

// settingsOf takes the settings out of the chart's values.
func settingsOf(t *testing.T, values []byte) string {
	t.Helper()
	_, text, found := strings.Cut(string(values), "\nsettings: |\n")
	if !found {
		t.Fatalf("the values of the chart have no settings:\n%s", values)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		in, ok := strings.CutPrefix(line, "  ")
		if !ok {
			break
		}
		b.WriteString(in)
	}
	return b.String()
}

// TestSettingsForContainersAreGood checks the settings of the chart and of the school example,
// with another data folder.
func TestSettingsForContainersAreGood(t *testing.T) {
	values, err := os.ReadFile("../dist/helm/shuultuur/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	school, err := os.ReadFile("../dist/docker/school/shuultuur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"chart": settingsOf(t, values), "school": string(school)} {
		file := filepath.Join(t.TempDir(), "shuultuur.yaml")
		if !strings.Contains(text, "data: /var/lib/shuultuur\n") {
			t.Errorf("%s: the data folder is not in the volume:\n%s", name, text)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(text, "/var/lib/shuultuur", "./data", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(filepath.Join(bin, "shuultuur"), "check", file).CombinedOutput()
		if err != nil {
			t.Errorf("checking the settings of %s: %v\n%s", name, err, out)
		}
	}
	if haproxy, err := exec.LookPath("haproxy"); err == nil {
		released(t, haproxy, "-c", "-q", "-f", "../dist/docker/school/haproxy.cfg")
	}
}

// chart renders the chart as Helm does, with the few template functions that it uses.
func chart(t *testing.T, values map[string]any) (objects map[string]map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../dist/helm/shuultuur/templates/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.New("chart").Option("missingkey=error").Funcs(template.FuncMap{
		"list": func(v ...any) []any { return v },
		"indent": func(n int, s string) string {
			p := strings.Repeat(" ", n)
			return p + strings.ReplaceAll(s, "\n", "\n"+p)
		},
		"sha256sum": func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) },
		"toJson":    func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"default": func(other, v any) any {
			if v == "" || v == nil {
				return other
			}
			return v
		},
	}).Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, map[string]any{"Release": map[string]any{"Name": "filter"}, "Chart": map[string]any{"AppVersion": "1.2.3"}, "Values": values}); err != nil {
		t.Fatal(err)
	}
	objects = map[string]map[string]any{}
	for _, part := range strings.Split(b.String(), "\n---\n") {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil {
			t.Fatalf("decoding an object of the chart: %v in\n%s", err, part)
		}
		kind, _ := v["kind"].(string)
		objects[kind] = v
	}
	return objects
}

// at follows a path of keys and indexes into objects and lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// TestTheChartRenders renders the chart with its own values and with others.
func TestTheChartRenders(t *testing.T) {
	read := func() (values map[string]any) {
		text, err := os.ReadFile("../dist/helm/shuultuur/values.yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &values)
		}
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	school, err := os.ReadFile("../dist/docker/school/shuultuur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	container := []any{"spec", "template", "spec", "containers", 0}
	for name, tt := range map[string]struct {
		change func(v map[string]any)
		kind   string
		path   []any
		want   any
	}{
		"as it is":     {func(map[string]any) {}, "StatefulSet", append(container, "image"), "shuultuur:1.2.3"},
		"image":        {func(v map[string]any) { v["image"].(map[string]any)["tag"] = "2.0.0" }, "StatefulSet", append(container, "image"), "shuultuur:2.0.0"},
		"settings":     {func(v map[string]any) { v["settings"] = string(school) }, "ConfigMap", []any{"data", "shuultuur.yaml"}, string(school)},
		"storage":      {func(v map[string]any) { v["storage"].(map[string]any)["class"] = "fast" }, "StatefulSet", []any{"spec", "volumeClaimTemplates", 0, "spec", "storageClassName"}, "fast"},
		"no class":     {func(map[string]any) {}, "StatefulSet", []any{"spec", "volumeClaimTemplates", 0, "spec", "storageClassName"}, nil},
		"balancer":     {func(v map[string]any) { v["service"].(map[string]any)["type"] = "LoadBalancer" }, "Service", []any{"spec", "externalTrafficPolicy"}, "Local"},
		"inside":       {func(map[string]any) {}, "Service", []any{"spec", "externalTrafficPolicy"}, nil},
		"environment":  {func(v map[string]any) { v["env"] = []any{map[string]any{"name": "PGPASSWORD", "value": "x: y"}} }, "StatefulSet", append(container, "env", 0, "value"), "x: y"},
		"no resources": {func(v map[string]any) { v["resources"] = nil }, "StatefulSet", append(container, "resources"), nil},
		"health":       {func(map[string]any) {}, "StatefulSet", append(container, "livenessProbe", "exec", "command", 2), "-running"},
		"its user":     {func(map[string]any) {}, "StatefulSet", []any{"spec", "template", "spec", "securityContext", "runAsUser"}, 1000},
		"another user": {func(v map[string]any) { v["user"] = nil }, "StatefulSet", []any{"spec", "template", "spec", "securityContext", "runAsUser"}, nil},
		"time to end":  {func(map[string]any) {}, "StatefulSet", []any{"spec", "template", "spec", "terminationGracePeriodSeconds"}, 45},
		"no root":      {func(map[string]any) {}, "StatefulSet", []any{"spec", "template", "spec", "securityContext", "runAsNonRoot"}, true},
	} {
		v := read()
		tt.change(v)
		objects := chart(t, v)
		if got := at(objects[tt.kind], tt.path...); got != tt.want || len(objects) != 3 {
			t.Errorf("%s: got %v, want %v; %d objects, want 3", name, got, tt.want, len(objects))
		}
	}
}

// TestArchivesAreReproducible makes the archives of the chart and of the program for Windows
// and macOS.
func TestArchivesAreReproducible(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	for name, text := range map[string]string{"program": "the program", "program.spdx.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool := filepath.Join(dir, "zip")
	released(t, "go", "build", "-o", tool, "../dist/zip")
	in := func(script string) []string {
		return []string{"env", "ZIP=" + tool, "sh", "-c", "cd .. && sh dist/" + script}
	}
	chart := twice(t, filepath.Join(dir, "shuultuur-chart-1.2.3.tgz"), func() []string { return in("helm/package.sh 1.2.3 " + dir) })
	if got := string(ungzipped(t, chart)["shuultuur/Chart.yaml"]); !strings.Contains(got, "\nversion: 1.2.3\n") || !strings.Contains(got, `appVersion: "1.2.3"`) {
		t.Errorf("the chart in the archive says %s", got)
	}
	macos := twice(t, filepath.Join(dir, "shuultuur-1.2.3-macos-arm64.tar.gz"), func() []string {
		return in("tarball.sh 1.2.3 macos arm64 " + program + " " + dir + " dist/macos/example.shuultuur.plist")
	})
	for _, name := range []string{"shuultuur", "shuultuur.spdx.json", "example.shuultuur.plist", "LICENSE"} {
		if ungzipped(t, macos)["shuultuur-1.2.3-macos-arm64/"+name] == nil {
			t.Errorf("the archive for macOS has no %s", name)
		}
	}
	windows := twice(t, filepath.Join(dir, "shuultuur-1.2.3-windows-amd64.zip"), func() []string {
		return in("tarball.sh 1.2.3 windows amd64 " + program + " " + dir + " dist/windows/install.ps1")
	})
	r, err := zip.NewReader(bytes.NewReader(windows), int64(len(windows)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, strings.TrimPrefix(f.Name, "shuultuur-1.2.3-windows-amd64/"))
	}
	if want := []string{"LICENSE", "README.md", "install.ps1", "shuultuur.exe", "shuultuur.spdx.json"}; !slices.Equal(names, want) {
		t.Errorf("the archive for Windows has %q, want %q", names, want)
	}
}

func ungzipped(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := untar(t, plain)
	return files
}
