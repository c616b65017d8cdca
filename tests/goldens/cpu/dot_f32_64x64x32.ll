declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)

define void @dot0(ptr %a, ptr %b, ptr %c, ptr %w, i64 %a_stride, i64 %b_stride) #0 {
entry:
  br label %loop1
loop1:
  %i3 = phi i64 [ 0, %entry ], [ %v138, %after10 ]
  %v4 = mul i64 %i3, 8
  %v5 = mul i64 %v4, 128
  %v6 = getelementptr i8, ptr %a, i64 %v5
  %v7 = mul i64 %v4, 256
  %v8 = getelementptr i8, ptr %c, i64 %v7
  br label %loop9
loop9:
  %i11 = phi i64 [ 0, %loop1 ], [ %v136, %after47 ]
  %v12 = mul i64 %i11, 128
  %v13 = getelementptr i8, ptr %v8, i64 %v12
  %v14 = getelementptr i8, ptr %b, i64 %v12
  %v15 = load <16 x float>, ptr %v13, align 4
  %v16 = getelementptr inbounds i8, ptr %v13, i64 64
  %v17 = load <16 x float>, ptr %v16, align 4
  %v18 = getelementptr inbounds i8, ptr %v13, i64 256
  %v19 = load <16 x float>, ptr %v18, align 4
  %v20 = getelementptr inbounds i8, ptr %v13, i64 320
  %v21 = load <16 x float>, ptr %v20, align 4
  %v22 = getelementptr inbounds i8, ptr %v13, i64 512
  %v23 = load <16 x float>, ptr %v22, align 4
  %v24 = getelementptr inbounds i8, ptr %v13, i64 576
  %v25 = load <16 x float>, ptr %v24, align 4
  %v26 = getelementptr inbounds i8, ptr %v13, i64 768
  %v27 = load <16 x float>, ptr %v26, align 4
  %v28 = getelementptr inbounds i8, ptr %v13, i64 832
  %v29 = load <16 x float>, ptr %v28, align 4
  %v30 = getelementptr inbounds i8, ptr %v13, i64 1024
  %v31 = load <16 x float>, ptr %v30, align 4
  %v32 = getelementptr inbounds i8, ptr %v13, i64 1088
  %v33 = load <16 x float>, ptr %v32, align 4
  %v34 = getelementptr inbounds i8, ptr %v13, i64 1280
  %v35 = load <16 x float>, ptr %v34, align 4
  %v36 = getelementptr inbounds i8, ptr %v13, i64 1344
  %v37 = load <16 x float>, ptr %v36, align 4
  %v38 = getelementptr inbounds i8, ptr %v13, i64 1536
  %v39 = load <16 x float>, ptr %v38, align 4
  %v40 = getelementptr inbounds i8, ptr %v13, i64 1600
  %v41 = load <16 x float>, ptr %v40, align 4
  %v42 = getelementptr inbounds i8, ptr %v13, i64 1792
  %v43 = load <16 x float>, ptr %v42, align 4
  %v44 = getelementptr inbounds i8, ptr %v13, i64 1856
  %v45 = load <16 x float>, ptr %v44, align 4
  br label %loop46
loop46:
  %i48 = phi i64 [ 0, %loop9 ], [ %v119, %loop46 ]
  %c49 = phi ptr [ %v6, %loop9 ], [ %v117, %loop46 ]
  %c50 = phi ptr [ %v14, %loop9 ], [ %v118, %loop46 ]
  %c51 = phi <16 x float> [ %v15, %loop9 ], [ %v73, %loop46 ]
  %c52 = phi <16 x float> [ %v17, %loop9 ], [ %v74, %loop46 ]
  %c53 = phi <16 x float> [ %v19, %loop9 ], [ %v79, %loop46 ]
  %c54 = phi <16 x float> [ %v21, %loop9 ], [ %v80, %loop46 ]
  %c55 = phi <16 x float> [ %v23, %loop9 ], [ %v85, %loop46 ]
  %c56 = phi <16 x float> [ %v25, %loop9 ], [ %v86, %loop46 ]
  %c57 = phi <16 x float> [ %v27, %loop9 ], [ %v91, %loop46 ]
  %c58 = phi <16 x float> [ %v29, %loop9 ], [ %v92, %loop46 ]
  %c59 = phi <16 x float> [ %v31, %loop9 ], [ %v97, %loop46 ]
  %c60 = phi <16 x float> [ %v33, %loop9 ], [ %v98, %loop46 ]
  %c61 = phi <16 x float> [ %v35, %loop9 ], [ %v103, %loop46 ]
  %c62 = phi <16 x float> [ %v37, %loop9 ], [ %v104, %loop46 ]
  %c63 = phi <16 x float> [ %v39, %loop9 ], [ %v109, %loop46 ]
  %c64 = phi <16 x float> [ %v41, %loop9 ], [ %v110, %loop46 ]
  %c65 = phi <16 x float> [ %v43, %loop9 ], [ %v115, %loop46 ]
  %c66 = phi <16 x float> [ %v45, %loop9 ], [ %v116, %loop46 ]
  %v67 = load <16 x float>, ptr %c50, align 4
  %v68 = getelementptr inbounds i8, ptr %c50, i64 64
  %v69 = load <16 x float>, ptr %v68, align 4
  %v70 = load float, ptr %c49, align 4
  %v71 = insertelement <16 x float> poison, float %v70, i64 0
  %v72 = shufflevector <16 x float> %v71, <16 x float> poison, <16 x i32> zeroinitializer
  %v73 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v72, <16 x float> %v67, <16 x float> %c51)
  %v74 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v72, <16 x float> %v69, <16 x float> %c52)
  %v75 = getelementptr inbounds i8, ptr %c49, i64 128
  %v76 = load float, ptr %v75, align 4
  %v77 = insertelement <16 x float> poison, float %v76, i64 0
  %v78 = shufflevector <16 x float> %v77, <16 x float> poison, <16 x i32> zeroinitializer
  %v79 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v78, <16 x float> %v67, <16 x float> %c53)
  %v80 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v78, <16 x float> %v69, <16 x float> %c54)
  %v81 = getelementptr inbounds i8, ptr %c49, i64 256
  %v82 = load float, ptr %v81, align 4
  %v83 = insertelement <16 x float> poison, float %v82, i64 0
  %v84 = shufflevector <16 x float> %v83, <16 x float> poison, <16 x i32> zeroinitializer
  %v85 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v84, <16 x float> %v67, <16 x float> %c55)
  %v86 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v84, <16 x float> %v69, <16 x float> %c56)
  %v87 = getelementptr inbounds i8, ptr %c49, i64 384
  %v88 = load float, ptr %v87, align 4
  %v89 = insertelement <16 x float> poison, float %v88, i64 0
  %v90 = shufflevector <16 x float> %v89, <16 x float> poison, <16 x i32> zeroinitializer
  %v91 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v90, <16 x float> %v67, <16 x float> %c57)
  %v92 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v90, <16 x float> %v69, <16 x float> %c58)
  %v93 = getelementptr inbounds i8, ptr %c49, i64 512
  %v94 = load float, ptr %v93, align 4
  %v95 = insertelement <16 x float> poison, float %v94, i64 0
  %v96 = shufflevector <16 x float> %v95, <16 x float> poison, <16 x i32> zeroinitializer
  %v97 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v96, <16 x float> %v67, <16 x float> %c59)
  %v98 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v96, <16 x float> %v69, <16 x float> %c60)
  %v99 = getelementptr inbounds i8, ptr %c49, i64 640
  %v100 = load float, ptr %v99, align 4
  %v101 = insertelement <16 x float> poison, float %v100, i64 0
  %v102 = shufflevector <16 x float> %v101, <16 x float> poison, <16 x i32> zeroinitializer
  %v103 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v102, <16 x float> %v67, <16 x float> %c61)
  %v104 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v102, <16 x float> %v69, <16 x float> %c62)
  %v105 = getelementptr inbounds i8, ptr %c49, i64 768
  %v106 = load float, ptr %v105, align 4
  %v107 = insertelement <16 x float> poison, float %v106, i64 0
  %v108 = shufflevector <16 x float> %v107, <16 x float> poison, <16 x i32> zeroinitializer
  %v109 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v108, <16 x float> %v67, <16 x float> %c63)
  %v110 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v108, <16 x float> %v69, <16 x float> %c64)
  %v111 = getelementptr inbounds i8, ptr %c49, i64 896
  %v112 = load float, ptr %v111, align 4
  %v113 = insertelement <16 x float> poison, float %v112, i64 0
  %v114 = shufflevector <16 x float> %v113, <16 x float> poison, <16 x i32> zeroinitializer
  %v115 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v114, <16 x float> %v67, <16 x float> %c65)
  %v116 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v114, <16 x float> %v69, <16 x float> %c66)
  %v117 = getelementptr i8, ptr %c49, i64 4
  %v118 = getelementptr i8, ptr %c50, i64 256
  %v119 = add nuw nsw i64 %i48, 1
  %v120 = icmp slt i64 %v119, 32
  br i1 %v120, label %loop46, label %after47
after47:
  store <16 x float> %v73, ptr %v13, align 4
  %v121 = getelementptr inbounds i8, ptr %v13, i64 64
  store <16 x float> %v74, ptr %v121, align 4
  %v122 = getelementptr inbounds i8, ptr %v13, i64 256
  store <16 x float> %v79, ptr %v122, align 4
  %v123 = getelementptr inbounds i8, ptr %v13, i64 320
  store <16 x float> %v80, ptr %v123, align 4
  %v124 = getelementptr inbounds i8, ptr %v13, i64 512
  store <16 x float> %v85, ptr %v124, align 4
  %v125 = getelementptr inbounds i8, ptr %v13, i64 576
  store <16 x float> %v86, ptr %v125, align 4
  %v126 = getelementptr inbounds i8, ptr %v13, i64 768
  store <16 x float> %v91, ptr %v126, align 4
  %v127 = getelementptr inbounds i8, ptr %v13, i64 832
  store <16 x float> %v92, ptr %v127, align 4
  %v128 = getelementptr inbounds i8, ptr %v13, i64 1024
  store <16 x float> %v97, ptr %v128, align 4
  %v129 = getelementptr inbounds i8, ptr %v13, i64 1088
  store <16 x float> %v98, ptr %v129, align 4
  %v130 = getelementptr inbounds i8, ptr %v13, i64 1280
  store <16 x float> %v103, ptr %v130, align 4
  %v131 = getelementptr inbounds i8, ptr %v13, i64 1344
  store <16 x float> %v104, ptr %v131, align 4
  %v132 = getelementptr inbounds i8, ptr %v13, i64 1536
  store <16 x float> %v109, ptr %v132, align 4
  %v133 = getelementptr inbounds i8, ptr %v13, i64 1600
  store <16 x float> %v110, ptr %v133, align 4
  %v134 = getelementptr inbounds i8, ptr %v13, i64 1792
  store <16 x float> %v115, ptr %v134, align 4
  %v135 = getelementptr inbounds i8, ptr %v13, i64 1856
  store <16 x float> %v116, ptr %v135, align 4
  %v136 = add nuw nsw i64 %i11, 1
  %v137 = icmp slt i64 %v136, 2
  br i1 %v137, label %loop9, label %after10
after10:
  %v138 = add nuw nsw i64 %i3, 1
  %v139 = icmp slt i64 %v138, 8
  br i1 %v139, label %loop1, label %after2
after2:
  ret void
}

attributes #0 = { nounwind "tune-cpu"="znver4" }
