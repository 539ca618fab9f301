namespace derived {
namespace {

// --- The operators -------------------------------------------------------------------------------

class Machine {
 public:
  Tensor& at(int value) { return values_[static_cast<std::size_t>(value)]; }
  void free(int value) { at(value).bytes.reset(); }

  // Rows along the first axis.
  void begin_rows(int all) { start(all); }
  void take_row(int row, int all, int number) {
    const Tensor& to = start(row);
    const std::size_t size = bytes_of(to);
    std::memcpy(to.bytes.get(), at(all).bytes.get() + static_cast<std::size_t>(number) * size,
                size);
  }
  void keep_row(int all, int row, int number) {
    const std::size_t size = bytes_of(at(row));
    std::memcpy(at(all).bytes.get() + static_cast<std::size_t>(number) * size, at(row).bytes.get(),
                size);
  }

  void Number(int r, double number) {
    Tensor& result = start(r);
    write_number(result.format, result.bytes.get(), 0, number);
  }

  void Add(int r, int a, int b) {
    if (at(a).format == Format::kI64) {
      return apply_two<std::uint64_t, std::uint64_t>(
          start(r), at(a), at(b), [](std::uint64_t x, std::uint64_t y) { return x + y; });
    }
    two(r, a, b, [](auto x, auto y) { return x + y; });
  }
  void Sub(int r, int a, int b) {
    two(r, a, b, [](auto x, auto y) { return x - y; });
  }
  void Mul(int r, int a, int b) {
    if (at(a).format == Format::kI64) {
      return apply_two<std::uint64_t, std::uint64_t>(
          start(r), at(a), at(b), [](std::uint64_t x, std::uint64_t y) { return x * y; });
    }
    two(r, a, b, [](auto x, auto y) { return x * y; });
  }
  void Div(int r, int a, int b) {
    two(r, a, b, [](auto x, auto y) { return x / y; });
  }
  void Min(int r, int a, int b) {
    two(r, a, b, [](auto x, auto y) { return x < y || x != x ? x : y; });
  }
  void Max(int r, int a, int b) {
    two(r, a, b, [](auto x, auto y) { return x > y || x != x ? x : y; });
  }
  void Abs(int r, int a) {
    one(r, a, [](auto x) { return std::fabs(x); });
  }
  void Neg(int r, int a) {
    one(r, a, [](auto x) { return -x; });
  }
  void Reciprocal(int r, int a) {
    one(r, a, [](auto x) { return 1 / x; });
  }
  void Sqrt(int r, int a) {
    one(r, a, [](auto x) { return std::sqrt(x); });
  }
  void Floor(int r, int a) {
    one(r, a, [](auto x) { return std::floor(x); });
  }
  void Ceil(int r, int a) {
    one(r, a, [](auto x) { return std::ceil(x); });
  }
  void Round(int r, int a) {
    one(r, a, [](auto x) { return std::nearbyint(x); });
  }
  void Sign(int r, int a) {
    one(r, a, [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); });
  }
  void Clip(int r, int a, int low, int high) {
    if (at(a).format == Format::kF32) return clip<float>(r, a, low, high);
    clip<double>(r, a, low, high);
  }
  void IsNaN(int r, int a) {
    compare(r, a, a, [](auto x, auto y) { return x != y; });
  }
  void Equal(int r, int a, int b) {
    compare(r, a, b, [](auto x, auto y) { return x == y; });
  }
  void Less(int r, int a, int b) {
    compare(r, a, b, [](auto x, auto y) { return x < y; });
  }
  void LessOrEqual(int r, int a, int b) {
    compare(r, a, b, [](auto x, auto y) { return x <= y; });
  }
  void And(int r, int a, int b) {
    truth(r, a, b, [](int x, int y) { return x && y; });
  }
  void Or(int r, int a, int b) {
    truth(r, a, b, [](int x, int y) { return x || y; });
  }
  void Not(int r, int a) {
    truth(r, a, a, [](int x, int) { return !x; });
  }
  void Where(int r, int condition, int b, int c) {
    switch (size_of(at(b).format)) {
      case 1:
        return choose<std::uint8_t>(r, condition, b, c);
      case 2:
        return choose<std::uint16_t>(r, condition, b, c);
      case 4:
        return choose<std::uint32_t>(r, condition, b, c);
      default:
        return choose<std::uint64_t>(r, condition, b, c);
    }
  }
  void Cast(int r, int a) { convert(at(a), start(r)); }

  void Reshape(int r, int a) {
    const Tensor source = at(a);
    at(r) = {source.format, dims_of(r), source.bytes};
  }
  void Transpose(int r, int a, const Dims& axes) {
    const Dims own = dense_strides(at(a).dims);
    Dims strides;
    for (const std::int64_t axis : axes) strides.push_back(own[static_cast<std::size_t>(axis)]);
    copy_from(r, a, 0, strides);
  }
  // first: of each axis; steps alike.
  void Slice(int r, int a, const Dims& first, const Dims& steps) {
    Dims strides = dense_strides(at(a).dims);
    std::int64_t start_place = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      start_place += first[i] * strides[i];
      strides[i] *= steps[i];
    }
    copy_from(r, a, start_place, strides);
  }
  void Expand(int r, int a) { copy_from(r, a, 0, broadcast_strides(at(a).dims, dims_of(r))); }
  void Concat(int r, std::int64_t axis, const Dims& parts) {
    const Tensor& result = start(r);
    const Dims strides = dense_strides(result.dims);
    std::int64_t place = 0;
    for (const std::int64_t part : parts) {
      const Tensor& source = at(static_cast<int>(part));
      copy_box(source.dims, result, place, strides, source, 0, dense_strides(source.dims));
      place +=
          source.dims[static_cast<std::size_t>(axis)] * strides[static_cast<std::size_t>(axis)];
    }
  }
  void Pad(int r, int a, int fill, const Dims& before) {
    const Tensor& result = start(r);
    const Tensor& source = at(a);
    const Dims strides = dense_strides(result.dims);
    copy_box(result.dims, result, 0, strides, at(fill), 0, Dims(strides.size(), 0));
    std::int64_t place = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) place += before[i] * strides[i];
    copy_box(source.dims, result, place, strides, source, 0, dense_strides(source.dims));
  }
  void Gather(int r, int a, int indices, std::int64_t axis) {
    const Tensor& result = start(r);
    const Tensor& source = at(a);
    std::int64_t outer = 1, inner = 1;
    const auto at_axis = static_cast<std::size_t>(axis);
    for (std::size_t i = 0; i < at_axis; ++i) outer *= source.dims[i];
    for (std::size_t i = at_axis + 1; i < source.dims.size(); ++i) inner *= source.dims[i];
    switch (size_of(source.format)) {
      case 1:
        return gather<std::uint8_t>(result, source, at(indices), outer, inner);
      case 2:
        return gather<std::uint16_t>(result, source, at(indices), outer, inner);
      case 4:
        return gather<std::uint32_t>(result, source, at(indices), outer, inner);
      default:
        return gather<std::uint64_t>(result, source, at(indices), outer, inner);
    }
  }

  void MatMul(int r, int a, int b) {
    if (at(a).format == Format::kF32) return matmul<float>(r, a, b);
    matmul<double>(r, a, b);
  }
  void ReduceSum(int r, int a) {
    fold(r, a, [](auto x, auto y) { return x + y; });
  }
  void ReduceMax(int r, int a) {
    fold(r, a, [](auto x, auto y) { return x > y || x != x ? x : y; });
  }
  void ReduceMin(int r, int a) {
    fold(r, a, [](auto x, auto y) { return x < y || x != x ? x : y; });
  }
  void RunningSum(int r, int a, std::int64_t axis) {
    if (at(a).format == Format::kF32) return add_up<float>(r, a, axis);
    add_up<double>(r, a, axis);
  }

 private:
  static std::size_t bytes_of(const Tensor& tensor) {
    return static_cast<std::size_t>(tensor.count()) * size_of(tensor.format);
  }
  Tensor& start(int value) {
    return at(value) = make_tensor(kValues[value].format, dims_of(value));
  }

  template <typename Function>
  void two(int r, int a, int b, Function function) {
    const Tensor& result = start(r);
    if (result.format == Format::kF32)
      return apply_two<float, float>(result, at(a), at(b), function);
    apply_two<double, double>(result, at(a), at(b), function);
  }
  template <typename Function>
  void compare(int r, int a, int b, Function function) {
    const Tensor& result = start(r);
    if (at(a).format == Format::kF32) {
      return apply_two<std::uint8_t, float>(result, at(a), at(b), function);
    }
    apply_two<std::uint8_t, double>(result, at(a), at(b), function);
  }
  template <typename Function>
  void truth(int r, int a, int b, Function function) {
    apply_two<std::uint8_t, std::uint8_t>(start(r), at(a), at(b), function);
  }
  template <typename Function>
  void one(int r, int a, Function function) {
    const Tensor& result = start(r);
    const std::int64_t count = result.count();
    if (result.format == Format::kF32) {
      for (std::int64_t i = 0; i < count; ++i)
        result.as<float>()[i] = function(at(a).as<float>()[i]);
      return;
    }
    const double* from = at(a).as<double>();
    double* to = result.as<double>();
    for (std::int64_t i = 0; i < count; ++i) to[i] = function(from[i]);
  }
  template <typename T>
  void clip(int r, int a, int low, int high) {
    const T least = *at(low).as<T>(), most = *at(high).as<T>();
    one(r, a, [&](auto x) {
      using Number = decltype(x);
      const auto l = static_cast<Number>(least), h = static_cast<Number>(most);
      return x < l ? l : x > h ? h : x;
    });
  }
  template <typename T>
  void choose(int r, int condition, int b, int c) {
    const Tensor& result = start(r);
    const Walk walk(
        result.dims,
        {dense_strides(result.dims), broadcast_strides(at(condition).dims, result.dims),
         broadcast_strides(at(b).dims, result.dims), broadcast_strides(at(c).dims, result.dims)});
    walk.rows([&](const Dims& places) {
      T* to = result.as<T>() + places[0];
      const std::uint8_t* test = at(condition).as<std::uint8_t>() + places[1];
      const T* x = at(b).as<T>() + places[2];
      const T* y = at(c).as<T>() + places[3];
      for (std::int64_t i = 0; i < walk.inner(); ++i) {
        to[i] = test[i * walk.step(1)] ? x[i * walk.step(2)] : y[i * walk.step(3)];
      }
    });
  }
  void copy_from(int r, int a, std::int64_t first, const Dims& strides) {
    const Tensor& result = start(r);
    copy_box(result.dims, result, 0, dense_strides(result.dims), at(a), first, strides);
  }
  template <typename T>
  static void gather(const Tensor& result, const Tensor& source, const Tensor& indices,
                     std::int64_t outer, std::int64_t inner) {
    const std::int64_t count = indices.count();
    const std::int64_t extent = source.count() == 0 ? 0 : source.count() / (outer * inner);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t place = indices.as<std::int64_t>()[i];
      if (place >= 0 && place < extent) continue;
      throw std::runtime_error("an index is " + std::to_string(place) + ", there are " +
                               std::to_string(extent) + " elements");
    }
    const std::int64_t whole = outer * inner == 0 ? 0 : source.count() / outer;
    T* to = result.as<T>();
    for (std::int64_t o = 0; o < outer; ++o) {
      const T* from = source.as<T>() + o * whole;
      for (std::int64_t i = 0; i < count; ++i) {
        const T* line = from + indices.as<std::int64_t>()[i] * inner;
        for (std::int64_t k = 0; k < inner; ++k) *to++ = line[k];
      }
    }
  }
  template <typename T>
  void matmul(int r, int a, int b) {
    const Tensor& result = start(r);
    const Tensor& x = at(a);
    const Tensor& y = at(b);
    const std::int64_t rows = result.dims[result.dims.size() - 2], columns = result.dims.back();
    const std::int64_t terms = x.dims.back();
    // Leading axes broadcast, in whole matrices.
    const Dims batch(result.dims.begin(), result.dims.end() - 2);
    const Walk walk(batch, {dense_strides(batch),
                            broadcast_strides(Dims(x.dims.begin(), x.dims.end() - 2), batch),
                            broadcast_strides(Dims(y.dims.begin(), y.dims.end() - 2), batch)});
    walk.rows([&](const Dims& places) {
      for (std::int64_t i = 0; i < walk.inner(); ++i) {
        multiply_matrices(result.as<T>() + (places[0] + i * walk.step(0)) * rows * columns,
                          x.as<T>() + (places[1] + i * walk.step(1)) * rows * terms,
                          y.as<T>() + (places[2] + i * walk.step(2)) * terms * columns, rows, terms,
                          columns);
      }
    });
  }
  template <typename Function>
  void fold(int r, int a, Function function) {
    if (at(a).format == Format::kF32) return fold_elements<float>(r, a, function);
    fold_elements<double>(r, a, function);
  }
  template <typename T, typename Function>
  void fold_elements(int r, int a, Function function) {
    const Tensor& result = start(r);
    const Tensor& source = at(a);
    std::vector<bool> begun(static_cast<std::size_t>(result.count()), false);
    const Walk walk(source.dims,
                    {broadcast_strides(result.dims, source.dims), dense_strides(source.dims)});
    walk.rows([&](const Dims& places) {
      for (std::int64_t i = 0; i < walk.inner(); ++i) {
        const std::int64_t place = places[0] + i * walk.step(0);
        T& to = result.as<T>()[place];
        const T x = source.as<T>()[places[1] + i * walk.step(1)];
        to = begun[static_cast<std::size_t>(place)] ? static_cast<T>(function(to, x)) : x;
        begun[static_cast<std::size_t>(place)] = true;
      }
    });
  }
  template <typename T>
  void add_up(int r, int a, std::int64_t axis) {
    const Tensor& result = start(r);
    const T* from = at(a).as<T>();
    T* to = result.as<T>();
    const std::int64_t inner = dense_strides(result.dims)[static_cast<std::size_t>(axis)];
    const std::int64_t length = result.dims[static_cast<std::size_t>(axis)];
    for (std::int64_t i = 0; i < result.count(); ++i) {
      to[i] = i / inner % length == 0 ? from[i] : to[i - inner] + from[i];
    }
  }

  std::vector<Tensor> values_ = std::vector<Tensor>(static_cast<std::size_t>(kValueCount));
};

// --- Steps ---------------------------------------------------------------------------------------

// Reads a list of steps.
class Steps {
 public:
  Steps(const std::int64_t* begin, std::int64_t length) : at_(begin), end_(begin + length) {}
  bool done() const { return at_ == end_; }
  int next() { return static_cast<int>(*at_++); }
  Dims next(std::size_t count) {
    const std::int64_t* const from = at_;
    at_ += count;
    return Dims(from, at_);
  }

  // The next numbers, as separate steps.
  Steps part(std::int64_t length) {
    at_ += length;
    return Steps(at_ - length, length);
  }

 private:
  const std::int64_t *at_, *end_;
};

using OneOperand = void (Machine::*)(int, int);
using TwoOperands = void (Machine::*)(int, int, int);

OneOperand one_operand(Op op) {
  switch (op) {
    case kAbs:
      return &Machine::Abs;
    case kNeg:
      return &Machine::Neg;
    case kReciprocal:
      return &Machine::Reciprocal;
    case kSqrt:
      return &Machine::Sqrt;
    case kFloor:
      return &Machine::Floor;
    case kCeil:
      return &Machine::Ceil;
    case kRound:
      return &Machine::Round;
    case kSign:
      return &Machine::Sign;
    case kIsNaN:
      return &Machine::IsNaN;
    case kNot:
      return &Machine::Not;
    case kCast:
      return &Machine::Cast;
    case kReshape:
      return &Machine::Reshape;
    case kExpand:
      return &Machine::Expand;
    case kReduceSum:
      return &Machine::ReduceSum;
    case kReduceMax:
      return &Machine::ReduceMax;
    case kReduceMin:
      return &Machine::ReduceMin;
    default:
      return nullptr;
  }
}

TwoOperands two_operands(Op op) {
  switch (op) {
    case kAdd:
      return &Machine::Add;
    case kSub:
      return &Machine::Sub;
    case kMul:
      return &Machine::Mul;
    case kDiv:
      return &Machine::Div;
    case kMin:
      return &Machine::Min;
    case kMax:
      return &Machine::Max;
    case kEqual:
      return &Machine::Equal;
    case kLess:
      return &Machine::Less;
    case kLessOrEqual:
      return &Machine::LessOrEqual;
    case kAnd:
      return &Machine::And;
    case kOr:
      return &Machine::Or;
    case kMatMul:
      return &Machine::MatMul;
    default:
      return nullptr;
  }
}

// The operators that need more than operands, or three of them.
void run_special_step(Machine& m, Op op, int r, Steps& steps) {
  const std::size_t rank = dims_of(r).size();
  const int a = steps.next();
  switch (op) {
    case kTranspose:
      return m.Transpose(r, a, steps.next(rank));
    case kSlice: {
      const Dims first = steps.next(rank);
      return m.Slice(r, a, first, steps.next(rank));
    }
    case kConcat: {  // a is the axis
      const int count = steps.next();
      return m.Concat(r, a, steps.next(static_cast<std::size_t>(count)));
    }
    case kRunningSum:
      return m.RunningSum(r, a, steps.next());
    default:
      break;
  }
  const int b = steps.next();
  if (op == kPad) return m.Pad(r, a, b, steps.next(rank));
  const int c = steps.next();
  if (op == kGather) return m.Gather(r, a, b, c);
  if (op == kClip) return m.Clip(r, a, b, c);
  m.Where(r, a, b, c);
}

void run_steps(Machine& m, Steps steps);

// The same steps again and again: what is made in one turn is carried into the next, each turn is
// given one row of some tensors and keeps one of others.
void run_repeat(Machine& m, int turns, Steps& steps) {
  struct Carried {
    int before, inside, next, behind;
  };
  struct Rows {
    int from, to;
  };
  std::vector<Carried> carried(static_cast<std::size_t>(steps.next()));
  std::vector<Rows> given(static_cast<std::size_t>(steps.next()));
  std::vector<Rows> kept(static_cast<std::size_t>(steps.next()));
  for (Carried& one : carried) {
    one.before = steps.next();
    one.inside = steps.next();
    one.next = steps.next();
    one.behind = steps.next();
    m.at(one.inside) = m.at(one.before);
  }
  for (std::vector<Rows>* list : {&given, &kept}) {
    for (Rows& one : *list) {
      one.from = steps.next();
      one.to = steps.next();
    }
  }
  for (const Rows& one : kept) m.begin_rows(one.to);
  const std::int64_t length = steps.next();
  const Steps body = steps.part(length);
  for (int turn = 0; turn < turns; ++turn) {
    for (const Rows& one : given) m.take_row(one.to, one.from, turn);
    run_steps(m, body);
    for (const Rows& one : kept) m.keep_row(one.to, one.from, turn);
    std::vector<Tensor> next;
    for (const Carried& one : carried) next.push_back(m.at(one.next));
    for (std::size_t i = 0; i < carried.size(); ++i) m.at(carried[i].inside) = next[i];
  }
  for (const Carried& one : carried) m.at(one.behind) = m.at(one.inside);
}

void run_steps(Machine& m, Steps steps) {
  while (!steps.done()) {
    const Op op = static_cast<Op>(steps.next());
    const int r = steps.next();
    if (op == kFree) {  // r of them
      for (int i = 0; i < r; ++i) m.free(steps.next());
    } else if (op == kRepeat) {
      run_repeat(m, r, steps);
    } else if (const OneOperand one = one_operand(op)) {
      (m.*one)(r, steps.next());
    } else if (const TwoOperands two = two_operands(op)) {
      const int a = steps.next();
      (m.*two)(r, a, steps.next());
    } else {
      run_special_step(m, op, r, steps);
    }
  }
}

// --- Constants and ports -------------------------------------------------------------------------

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : 63;
}

Tensor decode(const StoredConstant& constant) {
  const Tensor stored = make_tensor(constant.stored, dims_of(constant.value));
  const auto size = static_cast<std::size_t>(stored.count()) * size_of(stored.format);
  std::uint32_t bits = 0;
  int held = 0;
  const char* text = constant.base64;
  for (std::size_t i = 0; i < size; ++i) {
    while (held < 8) {
      bits = bits << 6 | static_cast<std::uint32_t>(digit_of(*text++));
      held += 6;
    }
    held -= 8;
    stored.bytes.get()[i] = static_cast<unsigned char>(bits >> held & 255);
  }
  const Format format = kValues[constant.value].format;
  if (format == stored.format) return stored;
  Tensor result = make_tensor(format, stored.dims);
  convert(stored, result);
  return result;
}

// Subnormal numbers must be kept and numbers rounded to nearest, whatever the caller sets.
void check_arithmetic() {
  const volatile double least = DBL_MIN, one = 1;
  const volatile float small = FLT_MIN;
  const volatile double kept = least / 2;
  const volatile float kept_too = small / 2;
  if (kept == 0 || kept_too == 0) {
    throw std::runtime_error("this thread flushes subnormal numbers to zero; switch that off");
  }
  const volatile double up = one + 0x1.8p-53, down = one - 0x1.8p-54;
  if (up == 1 || down == 1 || one + 0x1p-53 != 1 || -one - 0x1p-53 != -1) {
    throw std::runtime_error(
        "this thread does not round to nearest; call fesetround(FE_TONEAREST)");
  }
}

Machine with_constants() {
  Machine machine;
  for (int i = 0; i < kConstantCount; ++i) machine.at(kConstants[i].value) = decode(kConstants[i]);
  for (int i = 0; i < kNumberCount; ++i) machine.Number(kNumbers[i].value, kNumbers[i].number);
  run_steps(machine, Steps(kOnceSteps, kOnceLength));
  return machine;
}

Port port_of(const PortInfo& info) {
  const Dims dims = dims_of(info.value);
  const Format format = kValues[info.value].format;
  return {info.name, format, dims, static_cast<std::size_t>(count_of(dims)) * size_of(format)};
}

}  // namespace

std::vector<Port> inputs() {
  std::vector<Port> ports;
  for (int i = 0; i < kInputCount; ++i) ports.push_back(port_of(kInputs[i]));
  return ports;
}

std::vector<Port> outputs() {
  std::vector<Port> ports;
  for (int i = 0; i < kOutputCount; ++i) ports.push_back(port_of(kOutputs[i]));
  return ports;
}

std::vector<Bytes> run(const std::vector<Bytes>& given) {
  check_arithmetic();
  static const Machine prepared = with_constants();
  Machine machine = prepared;
  const std::vector<Port> ports = inputs();
  if (given.size() != ports.size()) {
    throw std::runtime_error(std::to_string(given.size()) + " inputs given, there are " +
                             std::to_string(ports.size()));
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (given[i].size() != ports[i].bytes) {
      throw std::runtime_error("input '" + ports[i].name + "' has " +
                               std::to_string(given[i].size()) + " bytes, needed " +
                               std::to_string(ports[i].bytes));
    }
    Tensor tensor = make_tensor(ports[i].format, ports[i].dims);
    std::copy(given[i].begin(), given[i].end(), tensor.bytes.get());
    machine.at(kInputs[i].value) = tensor;
  }
  run_steps(machine, Steps(kSteps, kLength));
  std::vector<Bytes> results;
  for (int i = 0; i < kOutputCount; ++i) {
    const unsigned char* bytes = machine.at(kOutputs[i].value).bytes.get();
    results.emplace_back(bytes, bytes + port_of(kOutputs[i]).bytes);
  }
  return results;
}

}  // namespace derived

#ifndef DERIVED_WITHOUT_MAIN
namespace {

derived::Bytes read_whole(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) throw std::runtime_error(std::string("cannot read '") + path + "'");
  derived::Bytes bytes;
  unsigned char part[65536];
  for (std::size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0;) {
    bytes.insert(bytes.end(), part, part + got);
  }
  std::fclose(file);
  return bytes;
}

void write_whole(const char* path, const derived::Bytes& bytes) {
  std::FILE* file = std::fopen(path, "wb");
  const bool written =
      file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) {
    throw std::runtime_error(std::string("cannot write '") + path + "'");
  }
}

void print_usage() {
  std::fprintf(stderr,
               "usage: derived INPUT... OUTPUT...   (raw files, one a port; again and again)\n");
  for (const derived::Port& port : derived::inputs()) {
    std::fprintf(stderr, "  input '%s': %zu bytes\n", port.name.c_str(), port.bytes);
  }
  for (const derived::Port& port : derived::outputs()) {
    std::fprintf(stderr, "  output '%s': %zu bytes\n", port.name.c_str(), port.bytes);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t inputs = derived::inputs().size(), outputs = derived::outputs().size();
  const auto files = static_cast<std::size_t>(count) - 1;
  if (files == 0 || files % (inputs + outputs) != 0) {
    print_usage();
    return 2;
  }
  try {
    for (char** names = arguments + 1; names < arguments + count; names += inputs + outputs) {
      std::vector<derived::Bytes> given;
      for (std::size_t i = 0; i < inputs; ++i) given.push_back(read_whole(names[i]));
      const std::vector<derived::Bytes> results = derived::run(given);
      for (std::size_t i = 0; i < outputs; ++i) write_whole(names[inputs + i], results[i]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "derived: %s\n", error.what());
    return 1;
  }
  return 0;
}
#endif
