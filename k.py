import time, torch
import torch._inductor.codecache as c
t=time.process_time(); c.torch_key(); print("torch_key",time.process_time()-t)
t=time.process_time(); c.triton_key(); print("triton_key",time.process_time()-t)
t=time.process_time(); c.CacheBase.get_system(); print("system",time.process_time()-t)
import os
def visit(folder,out):
    with os.scandir(folder) as it:
        for e in it:
            if e.is_dir():
                if os.path.exists(e.path+"/__init__.py"): visit(e.path,out)
            elif e.name.endswith((".py",".so")):
                s=e.stat(); out.append((e.path,s.st_size,s.st_mtime_ns,s.st_ctime_ns))
for k in range(3):
    t=time.process_time(); out=[]; visit(torch.__path__[0],out); out.sort(); import hashlib; h=hashlib.sha256(repr(out).encode()).digest();print("stat",time.process_time()-t,len(out))
import pstats
t=time.process_time()
from tilewright.compat.signatures import triton_key
print("imp",time.process_time()-t)
t=time.process_time(); triton_key(); print("our key",time.process_time()-t)
