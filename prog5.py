import sys
exec(open('prog.py').read().replace('tilewright.simulate(f"cuda:{capability}")','tilewright.simulate(f"cuda:{capability}", bounds="storage")'))
