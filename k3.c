/* step 3: matmul */
/* b0: reads  %20 f32[131072]  */
/* b1: reads  %21 f32[196608] transformer.h.0.attn.c_attn.weight */
/* b2: writes %22 f32[393216]  */
void k_5d2213b2ebf3005f(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {
  const float* restrict b0 = (const float*)buffers[0];
  const float* restrict b1 = (const float*)buffers[1];
  float* restrict b2 = (float*)buffers[2];
  _Alignas(64) float a0[384];
  _Alignas(64) float a1[67584];
  _Alignas(64) float a2[98304];
  for (int64_t v0 = begin; v0 < end; ++v0) {
    const int64_t v1 = (v0 % 2);
    const int64_t v2 = (v0 / 2);
    if (((0 <= v2) & (v2 < 1))) {
      const int64_t v3 = (v1 * 384);
      for (int64_t v4 = 0; v4 < 22; ++v4) {
        const int64_t v5 = (v4 * 12);
        const int64_t v6 = (v5 * 256);
        const int64_t v7 = (v5 * 256);
        crucible_transpose_f32(a1 + v6, 12, b0 + v7, 256, 12, 256);
      }
      for (int64_t v8 = 0; v8 < 256; ++v8) {
        for (int64_t v9 = 0; v9 < 12; ++v9) {
          #pragma clang loop vectorize(assume_safety) interleave(enable)
          for (int64_t v10 = 0; v10 < 32; ++v10) {
            const float v11 = b1[((v8 * 768) + (v3 + ((v9 * 32) + v10)))];
            a2[((((v9 * 256) + v8) * 32) + v10)] = v11;
          }
        }
      }
      for (int64_t v12 = 0; v12 < 12; ++v12) {
        const int64_t v13 = (v3 + (v12 * 32));
        for (int64_t v14 = 0; v14 < 22; ++v14) {
          const int64_t v15 = (v14 * 12);
          #pragma clang loop unroll(full)
          for (int64_t v16 = 0; v16 < 12; ++v16) {
            crucible_prefetch(b2 + (((v15 + v16) * 768) + v13));
            crucible_prefetch(b2 + (((v15 + v16) * 768) + (v13 + 16)));
          }
          const int64_t v17 = (v15 * 256);
          const int64_t v18 = (v12 * 8192);
          {
            const int64_t left = v17, right = v18, sums = 0;
            crucible_f32x16 t0_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t0_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t11_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t11_1 = crucible_splat_f32x16(0x0p+0f);
            for (int64_t q = 0; q < 256; ++q) {
              const crucible_f32x16 y0 = crucible_load_f32x16(a2 + right + q * 32 + 0);
              const crucible_f32x16 y1 = crucible_load_f32x16(a2 + right + q * 32 + 16);
              const crucible_f32x16 x0 = crucible_splat_f32x16(a1[left + 0 + q * 12]);
              t0_0 = crucible_fma_f32x16(x0, y0, t0_0);
              t0_1 = crucible_fma_f32x16(x0, y1, t0_1);
              const crucible_f32x16 x1 = crucible_splat_f32x16(a1[left + 1 + q * 12]);
              t1_0 = crucible_fma_f32x16(x1, y0, t1_0);
              t1_1 = crucible_fma_f32x16(x1, y1, t1_1);
              const crucible_f32x16 x2 = crucible_splat_f32x16(a1[left + 2 + q * 12]);
              t2_0 = crucible_fma_f32x16(x2, y0, t2_0);
              t2_1 = crucible_fma_f32x16(x2, y1, t2_1);
              const crucible_f32x16 x3 = crucible_splat_f32x16(a1[left + 3 + q * 12]);
              t3_0 = crucible_fma_f32x16(x3, y0, t3_0);
              t3_1 = crucible_fma_f32x16(x3, y1, t3_1);
              const crucible_f32x16 x4 = crucible_splat_f32x16(a1[left + 4 + q * 12]);
              t4_0 = crucible_fma_f32x16(x4, y0, t4_0);
              t4_1 = crucible_fma_f32x16(x4, y1, t4_1);
              const crucible_f32x16 x5 = crucible_splat_f32x16(a1[left + 5 + q * 12]);
              t5_0 = crucible_fma_f32x16(x5, y0, t5_0);
              t5_1 = crucible_fma_f32x16(x5, y1, t5_1);
              const crucible_f32x16 x6 = crucible_splat_f32x16(a1[left + 6 + q * 12]);
              t6_0 = crucible_fma_f32x16(x6, y0, t6_0);
              t6_1 = crucible_fma_f32x16(x6, y1, t6_1);
              const crucible_f32x16 x7 = crucible_splat_f32x16(a1[left + 7 + q * 12]);
              t7_0 = crucible_fma_f32x16(x7, y0, t7_0);
              t7_1 = crucible_fma_f32x16(x7, y1, t7_1);
              const crucible_f32x16 x8 = crucible_splat_f32x16(a1[left + 8 + q * 12]);
              t8_0 = crucible_fma_f32x16(x8, y0, t8_0);
              t8_1 = crucible_fma_f32x16(x8, y1, t8_1);
              const crucible_f32x16 x9 = crucible_splat_f32x16(a1[left + 9 + q * 12]);
              t9_0 = crucible_fma_f32x16(x9, y0, t9_0);
              t9_1 = crucible_fma_f32x16(x9, y1, t9_1);
              const crucible_f32x16 x10 = crucible_splat_f32x16(a1[left + 10 + q * 12]);
              t10_0 = crucible_fma_f32x16(x10, y0, t10_0);
              t10_1 = crucible_fma_f32x16(x10, y1, t10_1);
              const crucible_f32x16 x11 = crucible_splat_f32x16(a1[left + 11 + q * 12]);
              t11_0 = crucible_fma_f32x16(x11, y0, t11_0);
              t11_1 = crucible_fma_f32x16(x11, y1, t11_1);
            }
            crucible_store_f32x16(a0 + sums + 0, t0_0);
            crucible_store_f32x16(a0 + sums + 16, t0_1);
            crucible_store_f32x16(a0 + sums + 32, t1_0);
            crucible_store_f32x16(a0 + sums + 48, t1_1);
            crucible_store_f32x16(a0 + sums + 64, t2_0);
            crucible_store_f32x16(a0 + sums + 80, t2_1);
            crucible_store_f32x16(a0 + sums + 96, t3_0);
            crucible_store_f32x16(a0 + sums + 112, t3_1);
            crucible_store_f32x16(a0 + sums + 128, t4_0);
            crucible_store_f32x16(a0 + sums + 144, t4_1);
            crucible_store_f32x16(a0 + sums + 160, t5_0);
            crucible_store_f32x16(a0 + sums + 176, t5_1);
            crucible_store_f32x16(a0 + sums + 192, t6_0);
            crucible_store_f32x16(a0 + sums + 208, t6_1);
            crucible_store_f32x16(a0 + sums + 224, t7_0);
            crucible_store_f32x16(a0 + sums + 240, t7_1);
            crucible_store_f32x16(a0 + sums + 256, t8_0);
            crucible_store_f32x16(a0 + sums + 272, t8_1);
            crucible_store_f32x16(a0 + sums + 288, t9_0);
            crucible_store_f32x16(a0 + sums + 304, t9_1);
            crucible_store_f32x16(a0 + sums + 320, t10_0);
            crucible_store_f32x16(a0 + sums + 336, t10_1);
            crucible_store_f32x16(a0 + sums + 352, t11_0);
            crucible_store_f32x16(a0 + sums + 368, t11_1);
          }
          for (int64_t v19 = 0; v19 < 12; ++v19) {
            #pragma clang loop vectorize(assume_safety) interleave(enable)
            for (int64_t v20 = 0; v20 < 32; ++v20) {
              const float v21 = a0[((v19 * 32) + v20)];
              b2[(((v15 + v19) * 768) + (v13 + v20))] = v21;
            }
          }
        }
      }
    }
    if (((1 <= v2) & (v2 < 2))) {
      const int64_t v22 = (v1 * 384);
      for (int64_t v23 = 0; v23 < 17; ++v23) {
        const int64_t v24 = (v23 * 12);
        const int64_t v25 = (v24 * 256);
        const int64_t v26 = ((264 + v24) * 256);
        crucible_transpose_f32(a1 + v25, 12, b0 + v26, 256, 12, 256);
      }
      for (int64_t v27 = 0; v27 < 4; ++v27) {
        const int64_t v28 = ((v27 * 11) + 204);
        const int64_t v29 = (v28 * 256);
        const int64_t v30 = ((264 + v28) * 256);
        crucible_transpose_f32(a1 + v29, 11, b0 + v30, 256, 11, 256);
      }
      for (int64_t v31 = 0; v31 < 256; ++v31) {
        for (int64_t v32 = 0; v32 < 12; ++v32) {
          #pragma clang loop vectorize(assume_safety) interleave(enable)
          for (int64_t v33 = 0; v33 < 32; ++v33) {
            const float v34 = b1[((v31 * 768) + (v22 + ((v32 * 32) + v33)))];
            a2[((((v32 * 256) + v31) * 32) + v33)] = v34;
          }
        }
      }
      for (int64_t v35 = 0; v35 < 12; ++v35) {
        const int64_t v36 = (v22 + (v35 * 32));
        for (int64_t v37 = 0; v37 < 17; ++v37) {
          const int64_t v38 = (v37 * 12);
          #pragma clang loop unroll(full)
          for (int64_t v39 = 0; v39 < 12; ++v39) {
            crucible_prefetch(b2 + (((264 + (v38 + v39)) * 768) + v36));
            crucible_prefetch(b2 + (((264 + (v38 + v39)) * 768) + (v36 + 16)));
          }
          const int64_t v40 = (v38 * 256);
          const int64_t v41 = (v35 * 8192);
          {
            const int64_t left = v40, right = v41, sums = 0;
            crucible_f32x16 t0_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t0_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t11_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t11_1 = crucible_splat_f32x16(0x0p+0f);
            for (int64_t q = 0; q < 256; ++q) {
              const crucible_f32x16 y0 = crucible_load_f32x16(a2 + right + q * 32 + 0);
              const crucible_f32x16 y1 = crucible_load_f32x16(a2 + right + q * 32 + 16);
              const crucible_f32x16 x0 = crucible_splat_f32x16(a1[left + 0 + q * 12]);
              t0_0 = crucible_fma_f32x16(x0, y0, t0_0);
              t0_1 = crucible_fma_f32x16(x0, y1, t0_1);
              const crucible_f32x16 x1 = crucible_splat_f32x16(a1[left + 1 + q * 12]);
              t1_0 = crucible_fma_f32x16(x1, y0, t1_0);
              t1_1 = crucible_fma_f32x16(x1, y1, t1_1);
              const crucible_f32x16 x2 = crucible_splat_f32x16(a1[left + 2 + q * 12]);
              t2_0 = crucible_fma_f32x16(x2, y0, t2_0);
              t2_1 = crucible_fma_f32x16(x2, y1, t2_1);
              const crucible_f32x16 x3 = crucible_splat_f32x16(a1[left + 3 + q * 12]);
              t3_0 = crucible_fma_f32x16(x3, y0, t3_0);
              t3_1 = crucible_fma_f32x16(x3, y1, t3_1);
              const crucible_f32x16 x4 = crucible_splat_f32x16(a1[left + 4 + q * 12]);
              t4_0 = crucible_fma_f32x16(x4, y0, t4_0);
              t4_1 = crucible_fma_f32x16(x4, y1, t4_1);
              const crucible_f32x16 x5 = crucible_splat_f32x16(a1[left + 5 + q * 12]);
              t5_0 = crucible_fma_f32x16(x5, y0, t5_0);
              t5_1 = crucible_fma_f32x16(x5, y1, t5_1);
              const crucible_f32x16 x6 = crucible_splat_f32x16(a1[left + 6 + q * 12]);
              t6_0 = crucible_fma_f32x16(x6, y0, t6_0);
              t6_1 = crucible_fma_f32x16(x6, y1, t6_1);
              const crucible_f32x16 x7 = crucible_splat_f32x16(a1[left + 7 + q * 12]);
              t7_0 = crucible_fma_f32x16(x7, y0, t7_0);
              t7_1 = crucible_fma_f32x16(x7, y1, t7_1);
              const crucible_f32x16 x8 = crucible_splat_f32x16(a1[left + 8 + q * 12]);
              t8_0 = crucible_fma_f32x16(x8, y0, t8_0);
              t8_1 = crucible_fma_f32x16(x8, y1, t8_1);
              const crucible_f32x16 x9 = crucible_splat_f32x16(a1[left + 9 + q * 12]);
              t9_0 = crucible_fma_f32x16(x9, y0, t9_0);
              t9_1 = crucible_fma_f32x16(x9, y1, t9_1);
              const crucible_f32x16 x10 = crucible_splat_f32x16(a1[left + 10 + q * 12]);
              t10_0 = crucible_fma_f32x16(x10, y0, t10_0);
              t10_1 = crucible_fma_f32x16(x10, y1, t10_1);
              const crucible_f32x16 x11 = crucible_splat_f32x16(a1[left + 11 + q * 12]);
              t11_0 = crucible_fma_f32x16(x11, y0, t11_0);
              t11_1 = crucible_fma_f32x16(x11, y1, t11_1);
            }
            crucible_store_f32x16(a0 + sums + 0, t0_0);
            crucible_store_f32x16(a0 + sums + 16, t0_1);
            crucible_store_f32x16(a0 + sums + 32, t1_0);
            crucible_store_f32x16(a0 + sums + 48, t1_1);
            crucible_store_f32x16(a0 + sums + 64, t2_0);
            crucible_store_f32x16(a0 + sums + 80, t2_1);
            crucible_store_f32x16(a0 + sums + 96, t3_0);
            crucible_store_f32x16(a0 + sums + 112, t3_1);
            crucible_store_f32x16(a0 + sums + 128, t4_0);
            crucible_store_f32x16(a0 + sums + 144, t4_1);
            crucible_store_f32x16(a0 + sums + 160, t5_0);
            crucible_store_f32x16(a0 + sums + 176, t5_1);
            crucible_store_f32x16(a0 + sums + 192, t6_0);
            crucible_store_f32x16(a0 + sums + 208, t6_1);
            crucible_store_f32x16(a0 + sums + 224, t7_0);
            crucible_store_f32x16(a0 + sums + 240, t7_1);
            crucible_store_f32x16(a0 + sums + 256, t8_0);
            crucible_store_f32x16(a0 + sums + 272, t8_1);
            crucible_store_f32x16(a0 + sums + 288, t9_0);
            crucible_store_f32x16(a0 + sums + 304, t9_1);
            crucible_store_f32x16(a0 + sums + 320, t10_0);
            crucible_store_f32x16(a0 + sums + 336, t10_1);
            crucible_store_f32x16(a0 + sums + 352, t11_0);
            crucible_store_f32x16(a0 + sums + 368, t11_1);
          }
          for (int64_t v42 = 0; v42 < 12; ++v42) {
            #pragma clang loop vectorize(assume_safety) interleave(enable)
            for (int64_t v43 = 0; v43 < 32; ++v43) {
              const float v44 = a0[((v42 * 32) + v43)];
              b2[(((264 + (v38 + v42)) * 768) + (v36 + v43))] = v44;
            }
          }
        }
        for (int64_t v45 = 0; v45 < 4; ++v45) {
          const int64_t v46 = ((v45 * 11) + 204);
          #pragma clang loop unroll(full)
          for (int64_t v47 = 0; v47 < 11; ++v47) {
            crucible_prefetch(b2 + (((264 + (v46 + v47)) * 768) + v36));
            crucible_prefetch(b2 + (((264 + (v46 + v47)) * 768) + (v36 + 16)));
          }
          const int64_t v48 = (v46 * 256);
          const int64_t v49 = (v35 * 8192);
          {
            const int64_t left = v48, right = v49, sums = 0;
            crucible_f32x16 t0_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t0_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t1_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t2_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t3_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t4_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t5_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t6_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t7_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t8_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t9_1 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_0 = crucible_splat_f32x16(0x0p+0f);
            crucible_f32x16 t10_1 = crucible_splat_f32x16(0x0p+0f);
            for (int64_t q = 0; q < 256; ++q) {
              const crucible_f32x16 y0 = crucible_load_f32x16(a2 + right + q * 32 + 0);
              const crucible_f32x16 y1 = crucible_load_f32x16(a2 + right + q * 32 + 16);
              const crucible_f32x16 x0 = crucible_splat_f32x16(a1[left + 0 + q * 11]);
              t0_0 = crucible_fma_f32x16(x0, y0, t0_0);
              t0_1 = crucible_fma_f32x16(x0, y1, t0_1);
              const crucible_f32x16 x1 = crucible_splat_f32x16(a1[left + 1 + q * 11]);
              t1_0 = crucible_fma_f32x16(x1, y0, t1_0);
              t1_1 = crucible_fma_f32x16(x1, y1, t1_1);
              const crucible_f32x16 x2 = crucible_splat_f32x16(a1[left + 2 + q * 11]);
              t2_0 = crucible_fma_f32x16(x2, y0, t2_0);
              t2_1 = crucible_fma_f32x16(x2, y1, t2_1);
              const crucible_f32x16 x3 = crucible_splat_f32x16(a1[left + 3 + q * 11]);
              t3_0 = crucible_fma_f32x16(x3, y0, t3_0);
              t3_1 = crucible_fma_f32x16(x3, y1, t3_1);
              const crucible_f32x16 x4 = crucible_splat_f32x16(a1[left + 4 + q * 11]);
              t4_0 = crucible_fma_f32x16(x4, y0, t4_0);
              t4_1 = crucible_fma_f32x16(x4, y1, t4_1);
              const crucible_f32x16 x5 = crucible_splat_f32x16(a1[left + 5 + q * 11]);
              t5_0 = crucible_fma_f32x16(x5, y0, t5_0);
              t5_1 = crucible_fma_f32x16(x5, y1, t5_1);
              const crucible_f32x16 x6 = crucible_splat_f32x16(a1[left + 6 + q * 11]);
              t6_0 = crucible_fma_f32x16(x6, y0, t6_0);
              t6_1 = crucible_fma_f32x16(x6, y1, t6_1);
              const crucible_f32x16 x7 = crucible_splat_f32x16(a1[left + 7 + q * 11]);
              t7_0 = crucible_fma_f32x16(x7, y0, t7_0);
              t7_1 = crucible_fma_f32x16(x7, y1, t7_1);
              const crucible_f32x16 x8 = crucible_splat_f32x16(a1[left + 8 + q * 11]);
              t8_0 = crucible_fma_f32x16(x8, y0, t8_0);
              t8_1 = crucible_fma_f32x16(x8, y1, t8_1);
              const crucible_f32x16 x9 = crucible_splat_f32x16(a1[left + 9 + q * 11]);
              t9_0 = crucible_fma_f32x16(x9, y0, t9_0);
              t9_1 = crucible_fma_f32x16(x9, y1, t9_1);
              const crucible_f32x16 x10 = crucible_splat_f32x16(a1[left + 10 + q * 11]);
              t10_0 = crucible_fma_f32x16(x10, y0, t10_0);
              t10_1 = crucible_fma_f32x16(x10, y1, t10_1);
            }
            crucible_store_f32x16(a0 + sums + 0, t0_0);
            crucible_store_f32x16(a0 + sums + 16, t0_1);
            crucible_store_f32x16(a0 + sums + 32, t1_0);
            crucible_store_f32x16(a0 + sums + 48, t1_1);
            crucible_store_f32x16(a0 + sums + 64, t2_0);
            crucible_store_f32x16(a0 + sums + 80, t2_1);
            crucible_store_f32x16(a0 + sums + 96, t3_0);
            crucible_store_f32x16(a0 + sums + 112, t3_1);
            crucible_store_f32x16(a0 + sums + 128, t4_0);
            crucible_store_f32x16(a0 + sums + 144, t4_1);
            crucible_store_f32x16(a0 + sums + 160, t5_0);
            crucible_store_f32x16(a0 + sums + 176, t5_1);
            crucible_store_f32x16(a0 + sums + 192, t6_0);
            crucible_store_f32x16(a0 + sums + 208, t6_1);
            crucible_store_f32x16(a0 + sums + 224, t7_0);
            crucible_store_f32x16(a0 + sums + 240, t7_1);
            crucible_store_f32x16(a0 + sums + 256, t8_0);
            crucible_store_f32x16(a0 + sums + 272, t8_1);
            crucible_store_f32x16(a0 + sums + 288, t9_0);
            crucible_store_f32x16(a0 + sums + 304, t9_1);
            crucible_store_f32x16(a0 + sums + 320, t10_0);
            crucible_store_f32x16(a0 + sums + 336, t10_1);
          }
          for (int64_t v50 = 0; v50 < 11; ++v50) {
            #pragma clang loop vectorize(assume_safety) interleave(enable)
            for (int64_t v51 = 0; v51 < 32; ++v51) {
              const float v52 = a0[((v50 * 32) + v51)];
              b2[(((264 + (v46 + v50)) * 768) + (v36 + v51))] = v52;
            }
          }
        }
      }
    }
  }
}
