
define i32 @span(ptr %operands, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %operands, align 8
  %v2 = getelementptr inbounds i8, ptr %operands, i64 16
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds i8, ptr %operands, i64 32
  %v5 = load ptr, ptr %v4, align 8
  %v9 = icmp slt i64 %begin, %end
  br i1 %v9, label %enter8, label %after7
enter8:
  br label %loop6
loop6:
  %i10 = phi i64 [ %begin, %enter8 ], [ %v19, %loop6 ]
  %v11 = mul i64 %i10, 4
  %v12 = getelementptr inbounds i8, ptr %v1, i64 %v11
  %v13 = load <4 x float>, ptr %v12, align 1
  %v14 = getelementptr inbounds i8, ptr %v3, i64 %v11
  %v15 = load <4 x float>, ptr %v14, align 1
  %v16 = fmul <4 x float> splat (float 0x4000000000000000), %v13
  %v17 = fadd <4 x float> %v16, %v15
  %v18 = getelementptr inbounds i8, ptr %v5, i64 %v11
  store <4 x float> %v17, ptr %v18, align 1
  %v19 = add nsw i64 %i10, 4
  %v20 = icmp slt i64 %v19, %end
  br i1 %v20, label %loop6, label %after7
after7:
  ret i32 0
}

attributes #0 = { nounwind "tune-cpu"="haswell" }

declare void @llvm.x86.sse.sfence()

define i32 @span(ptr %operands, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %operands, align 8
  %v2 = getelementptr inbounds i8, ptr %operands, i64 8
  %v3 = load i64, ptr %v2, align 8
  %v4 = getelementptr inbounds i8, ptr %operands, i64 16
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr inbounds i8, ptr %operands, i64 32
  %v7 = load ptr, ptr %v6, align 8
  %v8 = load double, ptr %v5, align 1
  %v9 = fptrunc double %v8 to float
  %v10 = insertelement <4 x float> poison, float %v9, i64 0
  %v11 = shufflevector <4 x float> %v10, <4 x float> poison, <4 x i32> zeroinitializer
  %v15 = icmp slt i64 %begin, %end
  br i1 %v15, label %enter14, label %after13
enter14:
  br label %loop12
loop12:
  %i16 = phi i64 [ %begin, %enter14 ], [ %v34, %loop12 ]
  %v17 = mul i64 %i16, %v3
  %v18 = getelementptr inbounds i8, ptr %v1, i64 %v17
  %v19 = getelementptr i8, ptr %v18, i64 %v3
  %v20 = getelementptr i8, ptr %v19, i64 %v3
  %v21 = getelementptr i8, ptr %v20, i64 %v3
  %v22 = load float, ptr %v18, align 1
  %v23 = load float, ptr %v19, align 1
  %v24 = load float, ptr %v20, align 1
  %v25 = load float, ptr %v21, align 1
  %v26 = insertelement <4 x float> poison, float %v22, i64 0
  %v27 = insertelement <4 x float> %v26, float %v23, i64 1
  %v28 = insertelement <4 x float> %v27, float %v24, i64 2
  %v29 = insertelement <4 x float> %v28, float %v25, i64 3
  %v30 = fmul <4 x float> splat (float 0x4000000000000000), %v29
  %v31 = fadd <4 x float> %v30, %v11
  %v32 = mul i64 %i16, 4
  %v33 = getelementptr inbounds i8, ptr %v7, i64 %v32
  store <4 x float> %v31, ptr %v33, align 64, !nontemporal !1
  %v34 = add nsw i64 %i16, 4
  %v35 = icmp slt i64 %v34, %end
  br i1 %v35, label %loop12, label %after13
after13:
  call void @llvm.x86.sse.sfence()
  ret i32 0
}

attributes #0 = { nounwind "tune-cpu"="haswell" }
!1 = !{i32 1}


define i32 @span(ptr %operands, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %operands, align 8
  %v2 = getelementptr inbounds i8, ptr %operands, i64 16
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds i8, ptr %operands, i64 32
  %v5 = load ptr, ptr %v4, align 8
  %v9 = icmp slt i64 %begin, %end
  br i1 %v9, label %enter8, label %after7
enter8:
  br label %loop6
loop6:
  %i10 = phi i64 [ %begin, %enter8 ], [ %v20, %loop6 ]
  %v11 = mul i64 %i10, 4
  %v12 = getelementptr inbounds i8, ptr %v1, i64 %v11
  %v13 = load <4 x float>, ptr %v12, align 1
  %v14 = getelementptr inbounds i8, ptr %v3, i64 %v11
  %v15 = load <4 x float>, ptr %v14, align 1
  %v16 = fcmp olt <4 x float> %v13, %v15
  %v17 = fsub <4 x float> %v15, splat (float 0x3FF0000000000000)
  %v18 = select <4 x i1> %v16, <4 x float> %v13, <4 x float> %v17
  %v19 = getelementptr inbounds i8, ptr %v5, i64 %v11
  store <4 x float> %v18, ptr %v19, align 1
  %v20 = add nsw i64 %i10, 4
  %v21 = icmp slt i64 %v20, %end
  br i1 %v21, label %loop6, label %after7
after7:
  ret i32 0
}

attributes #0 = { nounwind "tune-cpu"="haswell" }
