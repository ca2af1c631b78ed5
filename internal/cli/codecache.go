package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/gogen"
)

// codeCache remembers the Go files that the last run rendered for a project,
// in the user's cache folder: rendering a hundred events takes most of a
// second. It holds the files themselves, not a mark that they are up to date,
// so that the tree is compared byte by byte whether they come from here or
// were rendered anew.
type codeCache struct {
	file string   // empty: there is no cache folder
	key  [32]byte // of everything that rendering depends on, this executable included
}

// sources are the files that the models were read from.
type sources struct {
	events, lock []byte // nil: there is no lock
}

// render is gogen.Generate, from the cache where it can be.
func (a *app) render(p *project, in gogen.Input, sources sources, force bool) ([]fileset.File, diag.List) {
	cache := newCodeCache(p, in, sources)
	if files, ok := cache.load(); ok && !force {
		a.logf("Go code not rendered: it is that of the last run")
		return files, nil
	}
	a.logf("Go code rendered")
	files, problems := gogen.Generate(in)
	if len(problems) > 0 {
		return nil, problems
	}
	if err := cache.store(files); err != nil {
		a.logf("not kept for the next run: %v", err)
	}
	return files, nil
}

func newCodeCache(p *project, in gogen.Input, sources sources) codeCache {
	dir, dirErr := os.UserCacheDir()
	config, configErr := filepath.Abs(p.config)
	self, selfErr := thisExecutable()
	if errors.Join(dirErr, configErr, selfErr) != nil {
		return codeCache{}
	}
	h := sha256.New()
	add := func(data []byte) {
		fmt.Fprintf(h, "%d\n", len(data)) // keeps two inputs from running together
		h.Write(data)
	}
	add(self)
	add(sources.events)
	add(sources.lock)
	add([]byte(in.ModulePath))
	for _, statement := range in.DDL {
		add([]byte(statement))
	}
	names := make([]string, 0, len(in.DB))
	for name := range in.DB {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add([]byte(name))
		add(in.DB[name])
	}
	project := sha256.Sum256([]byte(config)) // one file a project: the cache doesn't grow
	return codeCache{
		file: filepath.Join(dir, "outboxgen", "code", hex.EncodeToString(project[:16])),
		key:  [32]byte(h.Sum(nil)),
	}
}

// thisExecutable tells one build of the generator from another: a version
// alone would not, while outboxgen itself is being changed.
func thisExecutable() ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(exe)
	if err != nil {
		return nil, err
	}
	build, _ := debug.ReadBuildInfo()
	return fmt.Appendf(nil, "%s %d %d\n%v", exe, info.Size(), info.ModTime().UnixNano(), build), nil
}

// A cache file is the key, the digest of what follows, and the files.

func (c codeCache) load() ([]fileset.File, bool) {
	if c.file == "" {
		return nil, false
	}
	data, err := os.ReadFile(c.file)
	if err != nil || len(data) < 64 || !bytes.Equal(data[:32], c.key[:]) {
		return nil, false
	}
	if sum := sha256.Sum256(data[64:]); !bytes.Equal(data[32:64], sum[:]) {
		return nil, false
	}
	var files []fileset.File
	err = gob.NewDecoder(bytes.NewReader(data[64:])).Decode(&files)
	return files, err == nil && len(files) > 0
}

func (c codeCache) store(files []fileset.File) error {
	if c.file == "" {
		return errors.New("no cache folder")
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(files); err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes())
	dir := filepath.Dir(c.file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "new-") // two runs at once don't mix
	if err != nil {
		return err
	}
	_, err = temp.Write(slices.Concat(c.key[:], sum[:], b.Bytes()))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), c.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
