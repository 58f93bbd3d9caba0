# Quantised models with what ONNX's reference (int8) and NumPy (f8, int4) compute: python make.py, with onnx and ml_dtypes.
import os

import ml_dtypes
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
from onnx.reference import ReferenceEvaluator
rng=np.random.default_rng(0)
def build(name, act, conv):
    zp_t = np.int8 if act=='i8' else np.uint8
    nodes=[]; init=[]
    def const(n,a): init.append(nh.from_array(a,n)); return n
    def qdq(x, scale, zp, tag):
        s=const(tag+'_s',np.float32(scale)); z=const(tag+'_z',zp_t(zp))
        nodes.append(h.make_node('QuantizeLinear',[x,s,z],[tag+'_q'],name='q_'+tag)); nodes.append(h.make_node('DequantizeLinear',[tag+'_q',s,z],[tag],name='dq_'+tag)); return tag
    def weight(tag, shape, axis):
        w=rng.integers(-127,128,shape).astype(np.int8)
        sc=(rng.random(shape[axis])*0.01+0.001).astype(np.float32)
        const(tag+'_w',w); const(tag+'_ws',sc); const(tag+'_wz',np.zeros(shape[axis],np.int8))
        nodes.append(h.make_node('DequantizeLinear',[tag+'_w',tag+'_ws',tag+'_wz'],[tag],name='dq_'+tag,axis=axis)); return tag
    z0 = 0 if act=='i8' else 131
    if conv:
        x=h.make_tensor_value_info('x',T.FLOAT,['batch',8,10,10]); y=h.make_tensor_value_info('y',T.FLOAT,['batch',20])
        a=qdq('x',0.02,z0,'xd'); w=weight('w1',(16,8,3,3),0); const('b1',rng.standard_normal(16).astype(np.float32))
        nodes.append(h.make_node('Conv',[a,w,'b1'],['c1'],name='conv1',pads=[1,1,1,1],strides=[2,2])); nodes.append(h.make_node('Relu',['c1'],['r1'],name='relu1'))
        a=qdq('r1',0.05,0 if act=='i8' else 3,'r1d'); w=weight('w2',(16,16,3,3),0)
        nodes.append(h.make_node('Conv',[a,w],['c2'],name='conv2',pads=[1,1,1,1])); nodes.append(h.make_node('Add',['c2','r1d'],['s2'],name='add')); 
        nodes.append(h.make_node('GlobalAveragePool',['s2'],['p'],name='pool')); nodes.append(h.make_node('Flatten',['p'],['f'],name='flat'))
        a=qdq('f',0.03,z0,'fd'); w=weight('w3',(20,16),0); const('b3',rng.standard_normal(20).astype(np.float32))
        nodes.append(h.make_node('Gemm',[a,w,'b3'],['y'],name='fc',transB=1))
        shapes=[(2,8,10,10)]
    else:
        x=h.make_tensor_value_info('x',T.FLOAT,['batch',64]); y=h.make_tensor_value_info('y',T.FLOAT,['batch',24])
        a=qdq('x',0.02,z0,'xd'); w=weight('w1',(64,96),1); const('b1',rng.standard_normal(96).astype(np.float32))
        nodes.append(h.make_node('MatMul',[a,w],['m1'],name='mm1')); nodes.append(h.make_node('Add',['m1','b1'],['a1'],name='bias1')); nodes.append(h.make_node('Relu',['a1'],['r1'],name='relu1'))
        a=qdq('r1',0.1,0 if act=='i8' else 5,'r1d'); w=weight('w2',(24,96),0); 
        nodes.append(h.make_node('Gemm',[a,w],['y'],name='fc',transB=1))
        shapes=[(5,64)]
    g=h.make_graph(nodes,name,[x],[y],init)
    m=h.make_model(g,opset_imports=[h.make_opsetid('',19)],ir_version=9); onnx.checker.check_model(m)
    os.makedirs(name+'/test_data_set_0',exist_ok=True); onnx.save(m,name+'/model.onnx')
    xv=rng.standard_normal(shapes[0]).astype(np.float32)
    out=ReferenceEvaluator(m).run(None,{'x':xv})
    open(name+'/test_data_set_0/input_0.pb','wb').write(nh.from_array(xv,'x').SerializeToString())
    open(name+'/test_data_set_0/output_0.pb','wb').write(nh.from_array(out[0],'y').SerializeToString())
for act in ('i8','u8'):
    build('mlp_'+act,act,False); build('conv_'+act,act,True)


# ---- f8, and weights of 4 bits in blocks

rng=np.random.default_rng(1)
def t8(name,a): 
    q=a.astype(ml_dtypes.float8_e4m3fn); return h.make_tensor(name,T.FLOAT8E4M3FN,a.shape,q.tobytes(),raw=True), q.astype(np.float32)
x=rng.standard_normal((5,64)).astype(np.float32); w=(rng.standard_normal((96,64))).astype(np.float32)
wt,wq=t8('w',w); zt,_=t8('z',np.zeros(()))
sx,sw=np.float32(0.05),np.float32(0.02)
n=[h.make_node('QuantizeLinear',['x','sx','z'],['xq'],name='q'),h.make_node('DequantizeLinear',['xq','sx'],['xd'],name='dqx'),h.make_node('DequantizeLinear',['w','sw'],['wd'],name='dqw'),h.make_node('Gemm',['xd','wd'],['y'],name='fc',transB=1)]
def save(name,n,init,xv,yv,xs,ys):
    g=h.make_graph(n,name,[h.make_tensor_value_info('x',T.FLOAT,xs)],[h.make_tensor_value_info('y',T.FLOAT,ys)],init)
    m=h.make_model(g,opset_imports=[h.make_opsetid('',21)],ir_version=10); onnx.checker.check_model(m)
    os.makedirs(name+'/test_data_set_0',exist_ok=True); onnx.save(m,name+'/model.onnx')
    open(name+'/test_data_set_0/input_0.pb','wb').write(nh.from_array(xv,'x').SerializeToString())
    open(name+'/test_data_set_0/output_0.pb','wb').write(nh.from_array(yv.astype(np.float32),'y').SerializeToString())
xq=(x/sx).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
save('f8',n,[wt,zt,nh.from_array(np.array(sx),'sx'),nh.from_array(np.array(sw),'sw')],x,(xq*sx)@(wq*sw).T,['batch',64],['batch',96])
# int4: W [64, 96] blocked along k by 16
w4=rng.integers(-8,8,(64,96)).astype(np.int8); sc=(rng.random((4,96))*0.1).astype(np.float32)
pk=(w4.reshape(-1).astype(np.uint8)&15); pk=(pk[0::2]|(pk[1::2]<<4)).astype(np.uint8)
wt=h.make_tensor('w',T.INT4,(64,96),pk.tobytes(),raw=True)
n=[h.make_node('DequantizeLinear',['w','s'],['wd'],name='dqw',axis=0,block_size=16),h.make_node('MatMul',['x','wd'],['y'],name='mm')]
save('int4',n,[wt,nh.from_array(sc,'s')],x,x@(w4*np.repeat(sc,16,0)),['batch',64],['batch',96])
