import sys; sys.path[:0]=['/work/wt/speed/bench']
from foreign.products import *
import tilewright as tw
p=convolution(*map(int,sys.argv[1].split(',')))
k=p.launch(p.out,1)
open('/tmp/speed/conv.loops','w').write(k.asm['loops'])
open('/tmp/speed/conv.s','w').write(k.asm.get('asm','') or '')
print(list(k.asm))
from tilewright.runtime.drivers.cpu.blob import link
b=link(k.asm['obj']); open('/tmp/speed/conv.img','wb').write(b.image)
