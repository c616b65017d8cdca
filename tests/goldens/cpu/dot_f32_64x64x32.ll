declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)

define void @dot0(ptr %a, ptr %b, ptr %c, ptr %w, i64 %a_stride, i64 %b_stride) #0 {
entry:
  br label %loop1
loop1:
  %i3 = phi i64 [ 0, %entry ], [ %v139, %after10 ]
  %v4 = mul i64 %i3, 8
  %v5 = mul i64 %v4, 128
  %v6 = getelementptr i8, ptr %a, i64 %v5
  %v7 = mul i64 %v4, 256
  %v8 = getelementptr i8, ptr %c, i64 %v7
  br label %loop9
loop9:
  %i11 = phi i64 [ 0, %loop1 ], [ %v137, %after48 ]
  %v12 = mul i64 %i11, 128
  %v13 = getelementptr i8, ptr %v8, i64 %v12
  %v14 = mul i64 %i11, 128
  %v15 = getelementptr i8, ptr %b, i64 %v14
  %v16 = load <16 x float>, ptr %v13, align 4
  %v17 = getelementptr inbounds i8, ptr %v13, i64 64
  %v18 = load <16 x float>, ptr %v17, align 4
  %v19 = getelementptr inbounds i8, ptr %v13, i64 256
  %v20 = load <16 x float>, ptr %v19, align 4
  %v21 = getelementptr inbounds i8, ptr %v13, i64 320
  %v22 = load <16 x float>, ptr %v21, align 4
  %v23 = getelementptr inbounds i8, ptr %v13, i64 512
  %v24 = load <16 x float>, ptr %v23, align 4
  %v25 = getelementptr inbounds i8, ptr %v13, i64 576
  %v26 = load <16 x float>, ptr %v25, align 4
  %v27 = getelementptr inbounds i8, ptr %v13, i64 768
  %v28 = load <16 x float>, ptr %v27, align 4
  %v29 = getelementptr inbounds i8, ptr %v13, i64 832
  %v30 = load <16 x float>, ptr %v29, align 4
  %v31 = getelementptr inbounds i8, ptr %v13, i64 1024
  %v32 = load <16 x float>, ptr %v31, align 4
  %v33 = getelementptr inbounds i8, ptr %v13, i64 1088
  %v34 = load <16 x float>, ptr %v33, align 4
  %v35 = getelementptr inbounds i8, ptr %v13, i64 1280
  %v36 = load <16 x float>, ptr %v35, align 4
  %v37 = getelementptr inbounds i8, ptr %v13, i64 1344
  %v38 = load <16 x float>, ptr %v37, align 4
  %v39 = getelementptr inbounds i8, ptr %v13, i64 1536
  %v40 = load <16 x float>, ptr %v39, align 4
  %v41 = getelementptr inbounds i8, ptr %v13, i64 1600
  %v42 = load <16 x float>, ptr %v41, align 4
  %v43 = getelementptr inbounds i8, ptr %v13, i64 1792
  %v44 = load <16 x float>, ptr %v43, align 4
  %v45 = getelementptr inbounds i8, ptr %v13, i64 1856
  %v46 = load <16 x float>, ptr %v45, align 4
  br label %loop47
loop47:
  %i49 = phi i64 [ 0, %loop9 ], [ %v120, %loop47 ]
  %c50 = phi ptr [ %v6, %loop9 ], [ %v118, %loop47 ]
  %c51 = phi ptr [ %v15, %loop9 ], [ %v119, %loop47 ]
  %c52 = phi <16 x float> [ %v16, %loop9 ], [ %v74, %loop47 ]
  %c53 = phi <16 x float> [ %v18, %loop9 ], [ %v75, %loop47 ]
  %c54 = phi <16 x float> [ %v20, %loop9 ], [ %v80, %loop47 ]
  %c55 = phi <16 x float> [ %v22, %loop9 ], [ %v81, %loop47 ]
  %c56 = phi <16 x float> [ %v24, %loop9 ], [ %v86, %loop47 ]
  %c57 = phi <16 x float> [ %v26, %loop9 ], [ %v87, %loop47 ]
  %c58 = phi <16 x float> [ %v28, %loop9 ], [ %v92, %loop47 ]
  %c59 = phi <16 x float> [ %v30, %loop9 ], [ %v93, %loop47 ]
  %c60 = phi <16 x float> [ %v32, %loop9 ], [ %v98, %loop47 ]
  %c61 = phi <16 x float> [ %v34, %loop9 ], [ %v99, %loop47 ]
  %c62 = phi <16 x float> [ %v36, %loop9 ], [ %v104, %loop47 ]
  %c63 = phi <16 x float> [ %v38, %loop9 ], [ %v105, %loop47 ]
  %c64 = phi <16 x float> [ %v40, %loop9 ], [ %v110, %loop47 ]
  %c65 = phi <16 x float> [ %v42, %loop9 ], [ %v111, %loop47 ]
  %c66 = phi <16 x float> [ %v44, %loop9 ], [ %v116, %loop47 ]
  %c67 = phi <16 x float> [ %v46, %loop9 ], [ %v117, %loop47 ]
  %v68 = load <16 x float>, ptr %c51, align 4
  %v69 = getelementptr inbounds i8, ptr %c51, i64 64
  %v70 = load <16 x float>, ptr %v69, align 4
  %v71 = load float, ptr %c50, align 4
  %v72 = insertelement <16 x float> poison, float %v71, i64 0
  %v73 = shufflevector <16 x float> %v72, <16 x float> poison, <16 x i32> zeroinitializer
  %v74 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v73, <16 x float> %v68, <16 x float> %c52)
  %v75 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v73, <16 x float> %v70, <16 x float> %c53)
  %v76 = getelementptr inbounds i8, ptr %c50, i64 128
  %v77 = load float, ptr %v76, align 4
  %v78 = insertelement <16 x float> poison, float %v77, i64 0
  %v79 = shufflevector <16 x float> %v78, <16 x float> poison, <16 x i32> zeroinitializer
  %v80 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v79, <16 x float> %v68, <16 x float> %c54)
  %v81 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v79, <16 x float> %v70, <16 x float> %c55)
  %v82 = getelementptr inbounds i8, ptr %c50, i64 256
  %v83 = load float, ptr %v82, align 4
  %v84 = insertelement <16 x float> poison, float %v83, i64 0
  %v85 = shufflevector <16 x float> %v84, <16 x float> poison, <16 x i32> zeroinitializer
  %v86 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v85, <16 x float> %v68, <16 x float> %c56)
  %v87 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v85, <16 x float> %v70, <16 x float> %c57)
  %v88 = getelementptr inbounds i8, ptr %c50, i64 384
  %v89 = load float, ptr %v88, align 4
  %v90 = insertelement <16 x float> poison, float %v89, i64 0
  %v91 = shufflevector <16 x float> %v90, <16 x float> poison, <16 x i32> zeroinitializer
  %v92 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v91, <16 x float> %v68, <16 x float> %c58)
  %v93 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v91, <16 x float> %v70, <16 x float> %c59)
  %v94 = getelementptr inbounds i8, ptr %c50, i64 512
  %v95 = load float, ptr %v94, align 4
  %v96 = insertelement <16 x float> poison, float %v95, i64 0
  %v97 = shufflevector <16 x float> %v96, <16 x float> poison, <16 x i32> zeroinitializer
  %v98 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v97, <16 x float> %v68, <16 x float> %c60)
  %v99 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v97, <16 x float> %v70, <16 x float> %c61)
  %v100 = getelementptr inbounds i8, ptr %c50, i64 640
  %v101 = load float, ptr %v100, align 4
  %v102 = insertelement <16 x float> poison, float %v101, i64 0
  %v103 = shufflevector <16 x float> %v102, <16 x float> poison, <16 x i32> zeroinitializer
  %v104 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v103, <16 x float> %v68, <16 x float> %c62)
  %v105 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v103, <16 x float> %v70, <16 x float> %c63)
  %v106 = getelementptr inbounds i8, ptr %c50, i64 768
  %v107 = load float, ptr %v106, align 4
  %v108 = insertelement <16 x float> poison, float %v107, i64 0
  %v109 = shufflevector <16 x float> %v108, <16 x float> poison, <16 x i32> zeroinitializer
  %v110 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v109, <16 x float> %v68, <16 x float> %c64)
  %v111 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v109, <16 x float> %v70, <16 x float> %c65)
  %v112 = getelementptr inbounds i8, ptr %c50, i64 896
  %v113 = load float, ptr %v112, align 4
  %v114 = insertelement <16 x float> poison, float %v113, i64 0
  %v115 = shufflevector <16 x float> %v114, <16 x float> poison, <16 x i32> zeroinitializer
  %v116 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v115, <16 x float> %v68, <16 x float> %c66)
  %v117 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v115, <16 x float> %v70, <16 x float> %c67)
  %v118 = getelementptr i8, ptr %c50, i64 4
  %v119 = getelementptr i8, ptr %c51, i64 256
  %v120 = add nuw nsw i64 %i49, 1
  %v121 = icmp slt i64 %v120, 32
  br i1 %v121, label %loop47, label %after48
after48:
  store <16 x float> %v74, ptr %v13, align 4
  %v122 = getelementptr inbounds i8, ptr %v13, i64 64
  store <16 x float> %v75, ptr %v122, align 4
  %v123 = getelementptr inbounds i8, ptr %v13, i64 256
  store <16 x float> %v80, ptr %v123, align 4
  %v124 = getelementptr inbounds i8, ptr %v13, i64 320
  store <16 x float> %v81, ptr %v124, align 4
  %v125 = getelementptr inbounds i8, ptr %v13, i64 512
  store <16 x float> %v86, ptr %v125, align 4
  %v126 = getelementptr inbounds i8, ptr %v13, i64 576
  store <16 x float> %v87, ptr %v126, align 4
  %v127 = getelementptr inbounds i8, ptr %v13, i64 768
  store <16 x float> %v92, ptr %v127, align 4
  %v128 = getelementptr inbounds i8, ptr %v13, i64 832
  store <16 x float> %v93, ptr %v128, align 4
  %v129 = getelementptr inbounds i8, ptr %v13, i64 1024
  store <16 x float> %v98, ptr %v129, align 4
  %v130 = getelementptr inbounds i8, ptr %v13, i64 1088
  store <16 x float> %v99, ptr %v130, align 4
  %v131 = getelementptr inbounds i8, ptr %v13, i64 1280
  store <16 x float> %v104, ptr %v131, align 4
  %v132 = getelementptr inbounds i8, ptr %v13, i64 1344
  store <16 x float> %v105, ptr %v132, align 4
  %v133 = getelementptr inbounds i8, ptr %v13, i64 1536
  store <16 x float> %v110, ptr %v133, align 4
  %v134 = getelementptr inbounds i8, ptr %v13, i64 1600
  store <16 x float> %v111, ptr %v134, align 4
  %v135 = getelementptr inbounds i8, ptr %v13, i64 1792
  store <16 x float> %v116, ptr %v135, align 4
  %v136 = getelementptr inbounds i8, ptr %v13, i64 1856
  store <16 x float> %v117, ptr %v136, align 4
  %v137 = add nuw nsw i64 %i11, 1
  %v138 = icmp slt i64 %v137, 2
  br i1 %v138, label %loop9, label %after10
after10:
  %v139 = add nuw nsw i64 %i3, 1
  %v140 = icmp slt i64 %v139, 8
  br i1 %v140, label %loop1, label %after2
after2:
  ret void
}

attributes #0 = { nounwind "tune-cpu"="znver4" }
