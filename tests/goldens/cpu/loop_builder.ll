
define void @loops(ptr %a0, ptr %a1, i64 %a2) #0 {
entry:
  %v1 = and i64 %a2, -4
  %v5 = icmp slt i64 0, %v1
  br i1 %v5, label %enter4, label %after3
enter4:
  br label %loop2
loop2:
  %i6 = phi i64 [ 0, %enter4 ], [ %v12, %loop2 ]
  %c7 = phi <4 x float> [ splat (float 0x4024000000000000), %enter4 ], [ %v11, %loop2 ]
  %v8 = mul i64 %i6, 4
  %v9 = getelementptr inbounds i8, ptr %a0, i64 %v8
  %v10 = load <4 x float>, ptr %v9, align 4
  %v11 = fadd <4 x float> %c7, %v10
  %v12 = add nuw nsw i64 %i6, 4
  %v13 = icmp slt i64 %v12, %v1
  br i1 %v13, label %loop2, label %after3
after3:
  %v14 = phi <4 x float> [ splat (float 0x4024000000000000), %entry ], [ %v11, %loop2 ]
  %v15 = and i64 %a2, 3
  %v16 = icmp ne i64 %v15, 0
  br i1 %v16, label %then17, label %join19, !prof !0
then17:
  %v20 = sub i64 %a2, 1
  %v21 = mul i64 %v20, 4
  %v22 = getelementptr inbounds i8, ptr %a0, i64 %v21
  %v23 = load float, ptr %v22, align 4
  %v24 = insertelement <4 x float> poison, float %v23, i64 0
  %v25 = shufflevector <4 x float> %v24, <4 x float> poison, <4 x i32> zeroinitializer
  %v26 = fadd <4 x float> %v14, %v25
  br label %join19
join19:
  %v27 = phi <4 x float> [ %v26, %then17 ], [ %v14, %after3 ]
  store <4 x float> %v27, ptr %a1, align 4
  ret void
}

attributes #0 = { nounwind "tune-cpu"="haswell" }
!0 = !{!"branch_weights", i32 1, i32 1000}

declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, <8 x i1>)

define void @loops(ptr %a0, ptr %a1, i64 %a2) #0 {
entry:
  %v13 = alloca [512 x i8], align 64
  %v1 = insertelement <8 x i64> poison, i64 %a2, i64 0
  %v2 = shufflevector <8 x i64> %v1, <8 x i64> poison, <8 x i32> zeroinitializer
  %v3 = icmp slt <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %v2
  %v4 = getelementptr inbounds i8, ptr %a0, i64 4
  %v5 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v4, <8 x i1> %v3, <8 x float> splat (float 0x4020000000000000))
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v5, ptr align 4 %a1, <8 x i1> %v3)
  %v6 = getelementptr i8, ptr %a0, i64 8
  %v7 = getelementptr i8, ptr %v6, i64 8
  %v8 = getelementptr i8, ptr %v7, i64 8
  %v9 = getelementptr i8, ptr %v8, i64 8
  %v10 = getelementptr i8, ptr %v9, i64 8
  %v11 = getelementptr i8, ptr %v10, i64 8
  %v12 = getelementptr i8, ptr %v11, i64 8
  %v14 = extractelement <8 x i1> %v3, i64 0
  %v15 = extractelement <8 x i1> %v3, i64 1
  %v16 = extractelement <8 x i1> %v3, i64 2
  %v17 = extractelement <8 x i1> %v3, i64 3
  %v18 = extractelement <8 x i1> %v3, i64 4
  %v19 = extractelement <8 x i1> %v3, i64 5
  %v20 = extractelement <8 x i1> %v3, i64 6
  %v21 = extractelement <8 x i1> %v3, i64 7
  %v22 = select i1 %v14, ptr %a0, ptr %v13
  %v23 = select i1 %v15, ptr %v6, ptr %v13
  %v24 = select i1 %v16, ptr %v7, ptr %v13
  %v25 = select i1 %v17, ptr %v8, ptr %v13
  %v26 = select i1 %v18, ptr %v9, ptr %v13
  %v27 = select i1 %v19, ptr %v10, ptr %v13
  %v28 = select i1 %v20, ptr %v11, ptr %v13
  %v29 = select i1 %v21, ptr %v12, ptr %v13
  %v30 = load float, ptr %v22, align 1
  %v31 = load float, ptr %v23, align 1
  %v32 = load float, ptr %v24, align 1
  %v33 = load float, ptr %v25, align 1
  %v34 = load float, ptr %v26, align 1
  %v35 = load float, ptr %v27, align 1
  %v36 = load float, ptr %v28, align 1
  %v37 = load float, ptr %v29, align 1
  %v38 = insertelement <8 x float> poison, float %v30, i64 0
  %v39 = insertelement <8 x float> %v38, float %v31, i64 1
  %v40 = insertelement <8 x float> %v39, float %v32, i64 2
  %v41 = insertelement <8 x float> %v40, float %v33, i64 3
  %v42 = insertelement <8 x float> %v41, float %v34, i64 4
  %v43 = insertelement <8 x float> %v42, float %v35, i64 5
  %v44 = insertelement <8 x float> %v43, float %v36, i64 6
  %v45 = insertelement <8 x float> %v44, float %v37, i64 7
  %v46 = select <8 x i1> %v3, <8 x float> %v45, <8 x float> splat (float 0x4020000000000000)
  %v47 = getelementptr inbounds i8, ptr %a1, i64 64
  %v48 = getelementptr i8, ptr %v47, i64 12
  %v49 = getelementptr i8, ptr %v48, i64 12
  %v50 = getelementptr i8, ptr %v49, i64 12
  %v51 = getelementptr i8, ptr %v50, i64 12
  %v52 = getelementptr i8, ptr %v51, i64 12
  %v53 = getelementptr i8, ptr %v52, i64 12
  %v54 = getelementptr i8, ptr %v53, i64 12
  %v55 = extractelement <8 x i1> %v3, i64 0
  %v56 = extractelement <8 x i1> %v3, i64 1
  %v57 = extractelement <8 x i1> %v3, i64 2
  %v58 = extractelement <8 x i1> %v3, i64 3
  %v59 = extractelement <8 x i1> %v3, i64 4
  %v60 = extractelement <8 x i1> %v3, i64 5
  %v61 = extractelement <8 x i1> %v3, i64 6
  %v62 = extractelement <8 x i1> %v3, i64 7
  %v63 = select i1 %v55, ptr %v47, ptr %v13
  %v64 = select i1 %v56, ptr %v48, ptr %v13
  %v65 = select i1 %v57, ptr %v49, ptr %v13
  %v66 = select i1 %v58, ptr %v50, ptr %v13
  %v67 = select i1 %v59, ptr %v51, ptr %v13
  %v68 = select i1 %v60, ptr %v52, ptr %v13
  %v69 = select i1 %v61, ptr %v53, ptr %v13
  %v70 = select i1 %v62, ptr %v54, ptr %v13
  %v71 = extractelement <8 x float> %v46, i64 0
  store float %v71, ptr %v63, align 1
  %v72 = extractelement <8 x float> %v46, i64 1
  store float %v72, ptr %v64, align 1
  %v73 = extractelement <8 x float> %v46, i64 2
  store float %v73, ptr %v65, align 1
  %v74 = extractelement <8 x float> %v46, i64 3
  store float %v74, ptr %v66, align 1
  %v75 = extractelement <8 x float> %v46, i64 4
  store float %v75, ptr %v67, align 1
  %v76 = extractelement <8 x float> %v46, i64 5
  store float %v76, ptr %v68, align 1
  %v77 = extractelement <8 x float> %v46, i64 6
  store float %v77, ptr %v69, align 1
  %v78 = extractelement <8 x float> %v46, i64 7
  store float %v78, ptr %v70, align 1
  %v79 = mul i64 %a2, 4
  %v80 = getelementptr inbounds i8, ptr %a0, i64 4
  %v81 = getelementptr i8, ptr %v80, i64 %v79
  %v82 = getelementptr i8, ptr %v81, i64 %v79
  %v83 = getelementptr i8, ptr %v82, i64 %v79
  %v84 = getelementptr i8, ptr %v83, i64 %v79
  %v85 = getelementptr i8, ptr %v84, i64 %v79
  %v86 = getelementptr i8, ptr %v85, i64 %v79
  %v87 = getelementptr i8, ptr %v86, i64 %v79
  %v88 = load float, ptr %v80, align 4
  %v89 = load float, ptr %v81, align 4
  %v90 = load float, ptr %v82, align 4
  %v91 = load float, ptr %v83, align 4
  %v92 = load float, ptr %v84, align 4
  %v93 = load float, ptr %v85, align 4
  %v94 = load float, ptr %v86, align 4
  %v95 = load float, ptr %v87, align 4
  %v96 = insertelement <8 x float> poison, float %v88, i64 0
  %v97 = insertelement <8 x float> %v96, float %v89, i64 1
  %v98 = insertelement <8 x float> %v97, float %v90, i64 2
  %v99 = insertelement <8 x float> %v98, float %v91, i64 3
  %v100 = insertelement <8 x float> %v99, float %v92, i64 4
  %v101 = insertelement <8 x float> %v100, float %v93, i64 5
  %v102 = insertelement <8 x float> %v101, float %v94, i64 6
  %v103 = insertelement <8 x float> %v102, float %v95, i64 7
  %v104 = getelementptr inbounds i8, ptr %a1, i64 160
  %v105 = getelementptr i8, ptr %v104, i64 4
  %v106 = getelementptr i8, ptr %v105, i64 4
  %v107 = getelementptr i8, ptr %v106, i64 4
  %v108 = getelementptr i8, ptr %v107, i64 4
  %v109 = getelementptr i8, ptr %v108, i64 4
  %v110 = getelementptr i8, ptr %v109, i64 4
  %v111 = getelementptr i8, ptr %v110, i64 4
  %v112 = extractelement <8 x float> %v103, i64 0
  store float %v112, ptr %v104, align 1
  %v113 = extractelement <8 x float> %v103, i64 1
  store float %v113, ptr %v105, align 1
  %v114 = extractelement <8 x float> %v103, i64 2
  store float %v114, ptr %v106, align 1
  %v115 = extractelement <8 x float> %v103, i64 3
  store float %v115, ptr %v107, align 1
  %v116 = extractelement <8 x float> %v103, i64 4
  store float %v116, ptr %v108, align 1
  %v117 = extractelement <8 x float> %v103, i64 5
  store float %v117, ptr %v109, align 1
  %v118 = extractelement <8 x float> %v103, i64 6
  store float %v118, ptr %v110, align 1
  %v119 = extractelement <8 x float> %v103, i64 7
  store float %v119, ptr %v111, align 1
  %v120 = getelementptr inbounds i8, ptr %a0, i64 4
  %v121 = load float, ptr %v120, align 1
  %v122 = load float, ptr %v120, align 1
  %v123 = load float, ptr %v120, align 1
  %v124 = load float, ptr %v120, align 1
  %v125 = load float, ptr %v120, align 1
  %v126 = load float, ptr %v120, align 1
  %v127 = load float, ptr %v120, align 1
  %v128 = load float, ptr %v120, align 1
  %v129 = insertelement <8 x float> poison, float %v121, i64 0
  %v130 = insertelement <8 x float> %v129, float %v122, i64 1
  %v131 = insertelement <8 x float> %v130, float %v123, i64 2
  %v132 = insertelement <8 x float> %v131, float %v124, i64 3
  %v133 = insertelement <8 x float> %v132, float %v125, i64 4
  %v134 = insertelement <8 x float> %v133, float %v126, i64 5
  %v135 = insertelement <8 x float> %v134, float %v127, i64 6
  %v136 = insertelement <8 x float> %v135, float %v128, i64 7
  %v137 = getelementptr inbounds i8, ptr %a1, i64 192
  store <8 x float> %v136, ptr %v137, align 1
  ret void
}

attributes #0 = { nounwind "tune-cpu"="haswell" }


define void @loops(ptr %a0, ptr %a1, i64 %a2) #0 {
entry:
  %v33 = alloca [512 x i8], align 64
  %v1 = insertelement <4 x i64> poison, i64 %a2, i64 0
  %v2 = shufflevector <4 x i64> %v1, <4 x i64> poison, <4 x i32> zeroinitializer
  %v3 = icmp slt <4 x i64> <i64 0, i64 1, i64 2, i64 3>, %v2
  %v4 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 0
  %v5 = getelementptr float, ptr %a0, i64 %v4
  %v6 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 1
  %v7 = getelementptr float, ptr %a0, i64 %v6
  %v8 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 2
  %v9 = getelementptr float, ptr %a0, i64 %v8
  %v10 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 3
  %v11 = getelementptr float, ptr %a0, i64 %v10
  %v12 = load float, ptr %v5, align 4
  %v13 = load float, ptr %v7, align 4
  %v14 = load float, ptr %v9, align 4
  %v15 = load float, ptr %v11, align 4
  %v16 = insertelement <4 x float> poison, float %v12, i64 0
  %v17 = insertelement <4 x float> %v16, float %v13, i64 1
  %v18 = insertelement <4 x float> %v17, float %v14, i64 2
  %v19 = insertelement <4 x float> %v18, float %v15, i64 3
  %v20 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 0
  %v21 = getelementptr float, ptr %a1, i64 %v20
  %v22 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 1
  %v23 = getelementptr float, ptr %a1, i64 %v22
  %v24 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 2
  %v25 = getelementptr float, ptr %a1, i64 %v24
  %v26 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 3
  %v27 = getelementptr float, ptr %a1, i64 %v26
  %v28 = extractelement <4 x float> %v19, i64 0
  store float %v28, ptr %v21, align 4
  %v29 = extractelement <4 x float> %v19, i64 1
  store float %v29, ptr %v23, align 4
  %v30 = extractelement <4 x float> %v19, i64 2
  store float %v30, ptr %v25, align 4
  %v31 = extractelement <4 x float> %v19, i64 3
  store float %v31, ptr %v27, align 4
  %v32 = getelementptr float, ptr %a0, <4 x i64> <i64 3, i64 0, i64 2, i64 3>
  %v34 = insertelement <4 x ptr> poison, ptr %v33, i64 0
  %v35 = shufflevector <4 x ptr> %v34, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v36 = select <4 x i1> %v3, <4 x ptr> %v32, <4 x ptr> %v35
  %v37 = extractelement <4 x ptr> %v36, i64 0
  %v38 = extractelement <4 x ptr> %v36, i64 1
  %v39 = extractelement <4 x ptr> %v36, i64 2
  %v40 = extractelement <4 x ptr> %v36, i64 3
  %v41 = load float, ptr %v37, align 1
  %v42 = load float, ptr %v38, align 1
  %v43 = load float, ptr %v39, align 1
  %v44 = load float, ptr %v40, align 1
  %v45 = insertelement <4 x float> poison, float %v41, i64 0
  %v46 = insertelement <4 x float> %v45, float %v42, i64 1
  %v47 = insertelement <4 x float> %v46, float %v43, i64 2
  %v48 = insertelement <4 x float> %v47, float %v44, i64 3
  %v49 = select <4 x i1> %v3, <4 x float> %v48, <4 x float> %v19
  %v50 = getelementptr float, ptr %a1, i64 8
  %v51 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 0
  %v52 = getelementptr float, ptr %v50, i64 %v51
  %v53 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 1
  %v54 = getelementptr float, ptr %v50, i64 %v53
  %v55 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 2
  %v56 = getelementptr float, ptr %v50, i64 %v55
  %v57 = extractelement <4 x i64> <i64 3, i64 0, i64 2, i64 3>, i64 3
  %v58 = getelementptr float, ptr %v50, i64 %v57
  %v59 = extractelement <4 x i1> %v3, i64 0
  %v60 = extractelement <4 x i1> %v3, i64 1
  %v61 = extractelement <4 x i1> %v3, i64 2
  %v62 = extractelement <4 x i1> %v3, i64 3
  %v63 = select i1 %v59, ptr %v52, ptr %v33
  %v64 = select i1 %v60, ptr %v54, ptr %v33
  %v65 = select i1 %v61, ptr %v56, ptr %v33
  %v66 = select i1 %v62, ptr %v58, ptr %v33
  %v67 = extractelement <4 x float> %v49, i64 0
  store float %v67, ptr %v63, align 1
  %v68 = extractelement <4 x float> %v49, i64 1
  store float %v68, ptr %v64, align 1
  %v69 = extractelement <4 x float> %v49, i64 2
  store float %v69, ptr %v65, align 1
  %v70 = extractelement <4 x float> %v49, i64 3
  store float %v70, ptr %v66, align 1
  %v71 = insertelement <4 x ptr> poison, ptr %a0, i64 0
  %v72 = shufflevector <4 x ptr> %v71, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v73 = getelementptr float, <4 x ptr> %v72, <4 x i64> <i64 3, i64 0, i64 2, i64 3>
  %v74 = extractelement <4 x ptr> %v73, i64 0
  %v75 = extractelement <4 x ptr> %v73, i64 1
  %v76 = extractelement <4 x ptr> %v73, i64 2
  %v77 = extractelement <4 x ptr> %v73, i64 3
  %v78 = load float, ptr %v74, align 4
  %v79 = load float, ptr %v75, align 4
  %v80 = load float, ptr %v76, align 4
  %v81 = load float, ptr %v77, align 4
  %v82 = insertelement <4 x float> poison, float %v78, i64 0
  %v83 = insertelement <4 x float> %v82, float %v79, i64 1
  %v84 = insertelement <4 x float> %v83, float %v80, i64 2
  %v85 = insertelement <4 x float> %v84, float %v81, i64 3
  %v86 = getelementptr float, ptr %a1, i64 16
  %v87 = insertelement <4 x ptr> poison, ptr %v86, i64 0
  %v88 = shufflevector <4 x ptr> %v87, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v89 = getelementptr float, <4 x ptr> %v88, <4 x i64> <i64 0, i64 1, i64 2, i64 3>
  %v90 = extractelement <4 x ptr> %v89, i64 0
  %v91 = extractelement <4 x ptr> %v89, i64 1
  %v92 = extractelement <4 x ptr> %v89, i64 2
  %v93 = extractelement <4 x ptr> %v89, i64 3
  %v94 = extractelement <4 x float> %v85, i64 0
  store float %v94, ptr %v90, align 4
  %v95 = extractelement <4 x float> %v85, i64 1
  store float %v95, ptr %v91, align 4
  %v96 = extractelement <4 x float> %v85, i64 2
  store float %v96, ptr %v92, align 4
  %v97 = extractelement <4 x float> %v85, i64 3
  store float %v97, ptr %v93, align 4
  %v98 = insertelement <4 x ptr> poison, ptr %v33, i64 0
  %v99 = shufflevector <4 x ptr> %v98, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v100 = select <4 x i1> %v3, <4 x ptr> %v73, <4 x ptr> %v99
  %v101 = extractelement <4 x ptr> %v100, i64 0
  %v102 = extractelement <4 x ptr> %v100, i64 1
  %v103 = extractelement <4 x ptr> %v100, i64 2
  %v104 = extractelement <4 x ptr> %v100, i64 3
  %v105 = load float, ptr %v101, align 1
  %v106 = load float, ptr %v102, align 1
  %v107 = load float, ptr %v103, align 1
  %v108 = load float, ptr %v104, align 1
  %v109 = insertelement <4 x float> poison, float %v105, i64 0
  %v110 = insertelement <4 x float> %v109, float %v106, i64 1
  %v111 = insertelement <4 x float> %v110, float %v107, i64 2
  %v112 = insertelement <4 x float> %v111, float %v108, i64 3
  %v113 = select <4 x i1> %v3, <4 x float> %v112, <4 x float> splat (float 0x0000000000000000)
  %v114 = getelementptr float, ptr %a1, i64 24
  %v115 = insertelement <4 x ptr> poison, ptr %v114, i64 0
  %v116 = shufflevector <4 x ptr> %v115, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v117 = getelementptr float, <4 x ptr> %v116, <4 x i64> <i64 0, i64 1, i64 2, i64 3>
  %v118 = extractelement <4 x ptr> %v117, i64 0
  %v119 = extractelement <4 x ptr> %v117, i64 1
  %v120 = extractelement <4 x ptr> %v117, i64 2
  %v121 = extractelement <4 x ptr> %v117, i64 3
  %v122 = extractelement <4 x i1> %v3, i64 0
  %v123 = extractelement <4 x i1> %v3, i64 1
  %v124 = extractelement <4 x i1> %v3, i64 2
  %v125 = extractelement <4 x i1> %v3, i64 3
  %v126 = select i1 %v122, ptr %v118, ptr %v33
  %v127 = select i1 %v123, ptr %v119, ptr %v33
  %v128 = select i1 %v124, ptr %v120, ptr %v33
  %v129 = select i1 %v125, ptr %v121, ptr %v33
  %v130 = extractelement <4 x float> %v113, i64 0
  store float %v130, ptr %v126, align 1
  %v131 = extractelement <4 x float> %v113, i64 1
  store float %v131, ptr %v127, align 1
  %v132 = extractelement <4 x float> %v113, i64 2
  store float %v132, ptr %v128, align 1
  %v133 = extractelement <4 x float> %v113, i64 3
  store float %v133, ptr %v129, align 1
  ret void
}

attributes #0 = { nounwind "tune-cpu"="haswell" }

@table3933225709 = internal unnamed_addr constant [3 x i16] [i16 5, i16 6, i16 7], align 64

define void @loops(ptr %a0, ptr %a1, i64 %a2) #0 {
entry:
  %v1 = load <4 x float>, ptr %a0, align 1
  %v2 = getelementptr inbounds i8, ptr %a0, i64 16
  %v3 = load <4 x float>, ptr %v2, align 1
  %v4 = shufflevector <4 x float> %v1, <4 x float> %v3, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  store <4 x float> %v4, ptr %a1, align 1
  %v5 = extractelement <4 x float> %v1, i64 3
  %v6 = extractelement <4 x float> %v3, i64 1
  %v7 = insertelement <2 x float> poison, float %v5, i64 0
  %v8 = insertelement <2 x float> %v7, float %v6, i64 1
  %v9 = getelementptr inbounds i8, ptr %a1, i64 16
  store <2 x float> %v8, ptr %v9, align 1
  %v10 = shufflevector <4 x float> %v1, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v11 = shufflevector <4 x float> %v3, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v12 = shufflevector <2 x float> %v10, <2 x float> %v11, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v13 = getelementptr inbounds i8, ptr %a1, i64 32
  store <4 x float> %v12, ptr %v13, align 1
  %v14 = bitcast <4 x float> %v1 to <16 x i8>
  %v15 = xor <16 x i8> %v14, splat (i8 -128)
  %v16 = getelementptr inbounds i8, ptr %a1, i64 48
  store <16 x i8> %v15, ptr %v16, align 1
  %v17 = load <4 x float>, ptr %a0, align 4
  %v18 = getelementptr inbounds i8, ptr %a0, i64 16
  %v19 = load <4 x float>, ptr %v18, align 4
  %v20 = shufflevector <4 x float> %v17, <4 x float> %v19, <4 x i32> <i32 0, i32 3, i32 6, i32 7>
  %v21 = getelementptr inbounds i8, ptr %a0, i64 24
  %v22 = load <4 x float>, ptr %v21, align 4
  %v23 = shufflevector <4 x float> %v20, <4 x float> %v22, <4 x i32> <i32 0, i32 1, i32 2, i32 7>
  %v24 = getelementptr inbounds i8, ptr %a1, i64 64
  store <4 x float> %v23, ptr %v24, align 1
  %v25 = mul i64 %a2, 2
  %v26 = getelementptr inbounds i8, ptr @table3933225709, i64 %v25
  %v27 = load i16, ptr %v26, align 1
  %v28 = getelementptr inbounds i8, ptr %a1, i64 80
  store i16 %v27, ptr %v28, align 1
  %v29 = load i32, ptr %a0, align 1
  %v30 = sitofp i32 %v29 to float
  %v31 = getelementptr inbounds i8, ptr %a1, i64 96
  store float %v30, ptr %v31, align 1
  ret void
}

attributes #0 = { nounwind "tune-cpu"="haswell" }

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.sse.sfence()

define void @loops(ptr %a0, ptr %a1, i64 %a2) #0 {
entry:
  %v21 = alloca [512 x i8], align 64
  %v1 = icmp sgt i64 %a2, 2
  br label %loop2
loop2:
  %i4 = phi i64 [ 0, %entry ], [ %v18, %join8 ]
  %v5 = mul i64 %i4, 4
  br i1 %v1, label %then6, label %else7
then6:
  %v9 = getelementptr inbounds i8, ptr %a0, i64 %v5
  %v10 = load float, ptr %v9, align 1
  %v11 = fmul float %v10, 0x4000000000000000
  br label %join8
else7:
  %v12 = getelementptr inbounds i8, ptr %a0, i64 %v5
  %v13 = load float, ptr %v12, align 1
  br label %join8
join8:
  %v14 = phi float [ %v11, %then6 ], [ %v13, %else7 ]
  %v15 = getelementptr inbounds i8, ptr %a1, i64 %v5
  store float %v14, ptr %v15, align 1
  %v16 = add i64 %v5, 4096
  %v17 = getelementptr inbounds i8, ptr %a0, i64 %v16
  call void @llvm.prefetch.p0(ptr %v17, i32 1, i32 2, i32 1)
  %v18 = add nuw nsw i64 %i4, 1
  %v19 = icmp slt i64 %v18, 4
  br i1 %v19, label %loop2, label %after3
after3:
  %v20 = icmp sgt i64 %a2, 100
  %v22 = select i1 %v20, ptr %a0, ptr %v21
  store i32 1, ptr %v22, align 1
  %v23 = load i32, ptr %v21, align 1
  %v24 = getelementptr inbounds i8, ptr %a1, i64 32
  store i32 %v23, ptr %v24, align 1
  %v25 = getelementptr inbounds i8, ptr %a1, i64 16
  store <4 x i32> splat (i32 7), ptr %v25, align 16, !nontemporal !1
  call void @llvm.x86.sse.sfence()
  ret void
}

attributes #0 = { nounwind "tune-cpu"="haswell" }
!1 = !{i32 1}
