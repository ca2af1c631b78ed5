package spec
import ("testing";"math/rand/v2";"os";"path/filepath";"time";"fmt")
func TestMut(t *testing.T){
 files,_:=filepath.Glob("testdata/*/*/events.yaml"); var seeds [][]byte
 for _,f:=range files{b,_:=os.ReadFile(f); if len(b)<4000{seeds=append(seeds,b)}}
 toks:=[]string{"{","}","[","]","?",":",": ","\n","\n  ","- ","'","\"","|\n","\t","&a ","*a","!x ",",","#"," #","<",">","<<: x\n","null","~","y","é","\u2028","\x00","---\n","%Y\n","\\", "  ", "map<a,b>", "@", "`", "? ", "list<", "\r\n", "\r"}
 msgs:=map[string]int{}; n:=0; var slow time.Duration
 for end:=time.Now().Add(40*time.Second); time.Now().Before(end); n++ {
  s:=seeds[rand.IntN(len(seeds))]; s=append([]byte{},s...)
  for k:=0;k<1+rand.IntN(3);k++{ if len(s)==0{break}; i:=rand.IntN(len(s)); switch rand.IntN(3){
   case 0: tk:=toks[rand.IntN(len(toks))]; s=append(s[:i:i],append([]byte(tk),s[i:]...)...)
   case 1: j:=min(len(s),i+1+rand.IntN(8)); s=append(s[:i:i],s[j:]...)
   case 2: o:=seeds[rand.IntN(len(seeds))]; if len(o)==0{continue}; a:=rand.IntN(len(o)); b:=min(len(o),a+rand.IntN(60)); s=append(s[:i:i],append(append([]byte{},o[a:b]...),s[i:]...)...)
  }}
  b0:=time.Now()
  m,p:=Parse("events.yaml",s); checkProblems(t,s,p); if m!=nil{dump(m)}
  if d:=time.Since(b0); d>slow {slow=d}
  for _,d:=range p{ if d.Rule=="yaml-syntax"||d.Rule=="bad-key" {msgs[d.Message]++}}
  if t.Failed(){ t.Fatalf("%q",s)}
 }
 fmt.Println(n,slow); for m,c:=range msgs{fmt.Println(c,m)}
}
