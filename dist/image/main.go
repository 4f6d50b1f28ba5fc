// Image packs the program as a container image without a container engine:
//
//	image VERSION ARCH PROGRAM SETTINGS CERTIFICATES OUT
//	image join OUT IMAGE...
//
// The image has the program, the files of the folder SETTINGS, the certificates of
// public authorities and a folder for data, and does not run as root. OUT is a tar archive
// that is an OCI image layout (image-spec 1.0) and has the manifest.json of
// "docker save" besides, so that Podman, skopeo, containerd and every Docker can
// load it. Times in it are SOURCE_DATE_EPOCH: the same program and certificates
// give the same bytes.
//
// join makes one image of those for several processors, which an engine chooses from: an OCI
// image layout whose index names an index. "docker save" knows no such archives.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// user is whom the program runs as, as in the Dockerfile and the chart. Its group is 0, which may
	// do what the user may: some platforms choose the user of a container.
	user     = 1000
	settings = "/etc/shuultuur/shuultuur.yaml"

	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 3 && os.Args[1] == "join" {
		if err := join(os.Args[2], os.Args[3:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) != 7 {
		log.Fatal("usage: image VERSION ARCH PROGRAM SETTINGS CERTIFICATES OUT, or image join OUT IMAGE...")
	}
	if err := pack(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
		log.Fatal(err)
	}
}

func pack(version, arch, program, from, certificates, out string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH has to be the time of the image in seconds: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	authorities, err := os.ReadFile(certificates)
	if err != nil {
		return fmt.Errorf("reading the certificates of public authorities: %w", err)
	}
	if block, _ := pem.Decode(authorities); block == nil || block.Type != "CERTIFICATE" {
		return fmt.Errorf("%s has no certificates in PEM", certificates)
	}
	entries := []entry{{name: "etc/", mode: 0o755}}
	entries, err = below(entries, from, "etc/shuultuur")
	if err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	layer, err := archive(created, append(entries, []entry{
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/shuultuur", mode: 0o755, content: binary},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/shuultuur/", mode: 0o770, owner: user},
	}...))
	if err != nil {
		return err
	}
	image, err := layout(version, arch, created, layer)
	if err != nil {
		return err
	}
	return os.WriteFile(out, image, 0o644)
}

// An entry is a file of an archive, or a folder, whose name ends in a slash.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// below adds the files and folders in a folder, in order, under a name. They belong to the
// user.
func below(entries []entry, folder, name string) ([]entry, error) {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		e := entry{name: filepath.ToSlash(filepath.Join(name, rel)), mode: 0o660, owner: user}
		if d.IsDir() {
			e.name, e.mode = e.name+"/", 0o770
		} else if e.content, err = os.ReadFile(path); err != nil {
			return err
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

func archive(created time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Size: int64(len(e.content)), ModTime: created, Typeflag: tar.TypeReg}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// A descriptor names a blob of the layout.
type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

// A platform says which machines an image is for.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// An object is JSON, whose keys Go writes in order.
type object = map[string]any

func layout(version, arch string, created time.Time, layer []byte) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, bytes.NewReader(layer)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	entries := []entry{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	blob := func(mediaType string, content []byte) descriptor {
		sum := digest(content)
		entries = append(entries, entry{name: "blobs/sha256/" + sum, mode: 0o644, content: content})
		return descriptor{Type: mediaType, Digest: "sha256:" + sum, Size: len(content)}
	}
	config, err := json.Marshal(configuration(version, arch, created, digest(layer)))
	if err != nil {
		return nil, err
	}
	about, filesystem := blob(configType, config), blob(layerType, packed.Bytes())
	manifest, err := json.Marshal(object{"schemaVersion": 2, "mediaType": manifestType, "config": about, "layers": []descriptor{filesystem}})
	if err != nil {
		return nil, err
	}
	named := blob(manifestType, manifest)
	named.Platform = &platform{arch, "linux"}
	named.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": version,
		"io.containerd.image.name":          "docker.io/library/shuultuur:" + version,
	}
	path := func(d descriptor) string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }
	for _, file := range []struct {
		name    string
		content any
	}{
		{"oci-layout", object{"imageLayoutVersion": "1.0.0"}},
		{"index.json", object{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{named}}},
		{"manifest.json", []object{{"Config": path(about), "RepoTags": []string{"shuultuur:" + version}, "Layers": []string{path(filesystem)}}}},
	} {
		text, err := json.Marshal(file.content)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: file.name, mode: 0o644, content: text})
	}
	return archive(created, entries)
}

// join writes one layout with all blobs of several, and an index of their images.
func join(out string, images []string) error {
	entries := []entry{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	known := map[string]bool{}
	add := func(sum string, content []byte) {
		if !known[sum] {
			known[sum] = true
			entries = append(entries, entry{name: "blobs/sha256/" + sum, mode: 0o644, content: content})
		}
	}
	var created time.Time
	var all []descriptor
	for _, image := range images {
		archived, err := os.ReadFile(image)
		if err != nil {
			return err
		}
		for r := tar.NewReader(bytes.NewReader(archived)); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", image, err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				return fmt.Errorf("reading %s: %w", image, err)
			}
			created = h.ModTime
			var index struct{ Manifests []descriptor }
			switch {
			case h.Name == "index.json":
				if err := json.Unmarshal(content, &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Platform == nil {
					return fmt.Errorf("%s is not an image that this program has packed (%v)", image, err)
				}
				all = append(all, index.Manifests[0])
			case filepath.Dir(h.Name) == "blobs/sha256":
				add(filepath.Base(h.Name), content)
			}
		}
	}
	names := all[0].Annotations
	for i := range all {
		all[i].Annotations = nil
	}
	inner, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": all})
	if err != nil {
		return err
	}
	add(digest(inner), inner)
	outer, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{{Type: indexType, Digest: "sha256:" + digest(inner), Size: len(inner), Annotations: names}}})
	if err != nil {
		return err
	}
	entries = append(entries, entry{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, entry{name: "index.json", mode: 0o644, content: outer})
	packed, err := archive(created.UTC(), entries)
	if err != nil {
		return err
	}
	return os.WriteFile(out, packed, 0o644)
}

// configuration says how the image runs, as the Dockerfile does. The health check is Docker's;
// OCI has no field for it.
func configuration(version, arch string, created time.Time, layer string) object {
	return object{
		"created":      created,
		"architecture": arch,
		"os":           "linux",
		"config": object{
			"User":         fmt.Sprintf("%d:0", user),
			"Entrypoint":   []string{"/usr/bin/shuultuur"},
			"Cmd":          []string{"run", "-config", settings},
			"Env":          []string{"PATH=/usr/bin"},
			"WorkingDir":   filepath.Dir(settings), // commands without -config find the settings
			"Volumes":      object{"/etc/shuultuur": object{}, "/var/lib/shuultuur": object{}},
			"ExposedPorts": object{"8080/tcp": object{}, "8081/tcp": object{}, "8053/tcp": object{}, "8053/udp": object{}},
			"Healthcheck": object{
				"Test":        []string{"CMD", "/usr/bin/shuultuur", "check", "-running", "-config", settings},
				"Interval":    30 * time.Second,
				"Timeout":     5 * time.Second,
				"StartPeriod": time.Minute,
			},
			"Labels": object{
				"org.opencontainers.image.title":    "shuultuur",
				"org.opencontainers.image.version":  version,
				"org.opencontainers.image.licenses": "BSD-2-Clause",
			},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
		"history": []object{{"created": created, "created_by": "dist/image"}},
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
