"""row.py NAME SIZE: prints loops / times"""
import sys, time, re; sys.path[:0]=['/work/wt/speed/bench','/work/wt/speed/examples']
import peers; peers.limit_threads(1)
from foreign import ROWS
name,size=sys.argv[1],int(sys.argv[2])
r=[r for r in ROWS if r.name==name][0]
p=r.make(*r.shapes[size])
k=p.launch(p.out,1)
if len(sys.argv)>3:
    o=sys.argv[3]
    for s in ('ttir','ttcir','loops','llir'): open(f'{o}.{s}','w').write(k.asm[s])
    from tilewright.runtime.drivers.cpu.blob import link
    b=link(k.asm['obj']); open(o+'.img','wb').write(b.image)
w=p.works(); p.check(w)
fs={'ours':lambda: p.launch(p.out,1), **w}
if p.stream: fs['stream']=p.stream()[0]
best={n:[] for n in fs}
for _ in range(int(sys.argv[4]) if len(sys.argv)>4 else 15):
    for n,f in fs.items():
        if n=='jax': continue
        s=time.perf_counter(); f(); best[n].append(time.perf_counter()-s)
for n,b in best.items():
    if b:
        b.sort(); print(n, f'{b[0]*1e6:.1f} med {b[len(b)//2]*1e6:.1f}')
