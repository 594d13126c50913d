/* Kernels of the shapes that a generator writes: element-wise, softmax by shuffles and shared memory, tiled product
   with two buffers, transposition, histogram by atomics, local arrays with f64 and 64-bit integers. */
typedef unsigned int u32;
#define SHFL_XOR(v,m) __shfl_xor_sync(0xffffffffu,v,m)
#define SHFL_DOWN(v,m) __shfl_down_sync(0xffffffffu,v,m)
#define BALLOT(p) __ballot_sync(0xffffffffu,p)
extern "C" __global__ void ew(float*o,const float*a,const float*b,float s,u32 n){
  u32 i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) o[i]=fmaxf(__fmaf_rn(a[i],s,b[i]),0.f);
}
extern "C" __global__ void ew4(float4*o,const float4*a,const float4*b,float s,u32 n){
  for(u32 i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x){
    float4 x=a[i],y=b[i]; x.x=x.x*s+y.x; x.y=x.y*s+y.y; x.z=x.z*s+y.z; x.w=x.w*s+y.w; o[i]=x; }
}
extern "C" __global__ void gelu(float*o,const float*a,u32 n){
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = a[i];
    o[i] = 0.5f * x * (1.f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
}
/* one block per row; warp shuffle inside a warp, shared memory tree over warps; dynamic shared memory caches the row */
extern "C" __global__ void __launch_bounds__(256) softmax(float*o,const float*a,int cols){
  extern __shared__ float row[]; __shared__ float part[32];
  const float*p=a+(size_t)blockIdx.x*cols; float m=-3.4e38f;
  for(int i=threadIdx.x;i<cols;i+=blockDim.x){ float x=p[i]; row[i]=x; m=fmaxf(m,x); }
  int lane=threadIdx.x%warpSize, w=threadIdx.x/warpSize, nw=blockDim.x/warpSize;
  for(int k=warpSize/2;k;k>>=1) m=fmaxf(m,SHFL_XOR(m,k));
  if(lane==0) part[w]=m; __syncthreads();
  for(int k=1;k<nw;k<<=1){ if(lane==0&&w%(2*k)==0&&w+k<nw) part[w]=fmaxf(part[w],part[w+k]); __syncthreads(); }
  m=part[0]; __syncthreads();
  float s=0; for(int i=threadIdx.x;i<cols;i+=blockDim.x){ float e=expf(row[i]-m); row[i]=e; s+=e; }
  for(int k=warpSize/2;k;k>>=1) s+=SHFL_DOWN(s,k);
  if(lane==0) part[w]=s; __syncthreads();
  for(int k=1;k<nw;k<<=1){ if(lane==0&&w%(2*k)==0&&w+k<nw) part[w]+=part[w+k]; __syncthreads(); }
  float r=1.f/part[0];
  for(int i=threadIdx.x;i<cols;i+=blockDim.x) o[(size_t)blockIdx.x*cols+i]=row[i]*r;
}
/* 64x64 tile, 16x16 threads, 4x4 per thread, k-step 16, double buffered shared memory */
extern "C" __global__ void __launch_bounds__(256) gemm(float*C,const float*A,const float*B,int M,int N,int K){
  __shared__ float As[2][16][64], Bs[2][16][64];
  int tx=threadIdx.x, ty=threadIdx.y, t=ty*16+tx, bm=blockIdx.y*64, bn=blockIdx.x*64;
  float acc[4][4]={}; int buf=0;
  for (int i = t; i < 1024; i += 256) {
    As[0][i & 15][i >> 4] = A[(size_t)(bm + (i >> 4)) * K + (i & 15)];
    Bs[0][i >> 6][i & 63] = B[(size_t)(i >> 6) * N + bn + (i & 63)];
  }
  __syncthreads();
  for(int k0=0;k0<K;k0+=16){
    float ra[4],rb[4]; bool more=k0+16<K;
    if (more)
      for (int j = 0; j < 4; j++) {
        int i = t + j * 256;
        ra[j] = A[(size_t)(bm + (i >> 4)) * K + k0 + 16 + (i & 15)];
        rb[j] = B[(size_t)(k0 + 16 + (i >> 6)) * N + bn + (i & 63)];
      }
    for(int k=0;k<16;k++){ float a[4],b[4];
      for(int i=0;i<4;i++){ a[i]=As[buf][k][ty*4+i]; b[i]=Bs[buf][k][tx*4+i]; }
      for(int i=0;i<4;i++) for(int j=0;j<4;j++) acc[i][j]=__fmaf_rn(a[i],b[j],acc[i][j]); }
    if(more){ buf^=1; for(int j=0;j<4;j++){ int i=t+j*256; As[buf][i&15][i>>4]=ra[j]; Bs[buf][i>>6][i&63]=rb[j]; } }
    __syncthreads();
  }
  for(int i=0;i<4;i++) for(int j=0;j<4;j++) C[(size_t)(bm+ty*4+i)*N+bn+tx*4+j]=acc[i][j];
}
extern "C" __global__ void transpose(float*o,const float*a,int rows,int cols){
  __shared__ float t[32][33]; int x=blockIdx.x*32+threadIdx.x, y=blockIdx.y*32+threadIdx.y;
  for(int j=0;j<32;j+=8) if(x<cols&&y+j<rows) t[threadIdx.y+j][threadIdx.x]=a[(size_t)(y+j)*cols+x];
  __syncthreads(); x=blockIdx.y*32+threadIdx.x; y=blockIdx.x*32+threadIdx.y;
  for(int j=0;j<32;j+=8) if(x<rows&&y+j<cols) o[(size_t)(y+j)*rows+x]=t[threadIdx.x][threadIdx.y+j];
}
extern "C" __global__ void hist(u32*h,const unsigned char*a,u32 n,float*fsum,u32*evens){
  __shared__ u32 b[256]; b[threadIdx.x]=0; __syncthreads();
  for(u32 i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x){ u32 v=a[i]; atomicAdd(&b[v],1u); }
  __syncthreads(); u32 c=b[threadIdx.x]; if(c) atomicAdd(&h[threadIdx.x],c);
  auto e=BALLOT((c&1)==0); if(threadIdx.x%warpSize==0) atomicAdd(evens,(u32)__popcll(e)); atomicAdd(fsum,(float)c);
  atomicMax(&h[256],c);
}
/* local array with a run-time index, f64, 64-bit integer, early return of part of a warp */
extern "C" __global__ void misc(double*o,const int*idx,int n){
  int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=n) return; double l[8]; for(int k=0;k<8;k++) l[k]=k*1.5+i;
  l[idx[i] & 7] += 100;
  double s = 0;
  for (int k = 0; k < 8; k++) s += l[(k + idx[i]) & 7] * (k + 1);
  unsigned long long q = (unsigned long long)i * 2654435761ull;
  o[i] = s + (double)(q % 1000) + (double)(__clz(i | 1) + __popc(i));
}
