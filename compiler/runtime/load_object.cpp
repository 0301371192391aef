// Sections that are kept at run time go one after another into one mapping; behind them a stub for each C function called,
// since these lie further away than a call reaches. Written, relocated, then made read-only and executable.
#include "compiler/runtime/load_object.h"
#include "compiler/runtime/row_moments.h"
#include <cmath>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dyno::runtime {

CodeMemory::CodeMemory(CodeMemory&& other) noexcept { *this = std::move(other); }
CodeMemory& CodeMemory::operator=(CodeMemory&& other) noexcept {
    std::swap(address, other.address);
    std::swap(size, other.size);
    std::swap(symbols, other.symbols);
    return *this;
}
CodeMemory::~CodeMemory() {
    if (address) munmap(address, size);
}

namespace {

template <class T> using Moments = void (*)(const T* const*, int64_t, int64_t, int64_t, T*, T*);

/// The functions that generated code may call.
void* c_function(const std::string& name) {
    using F = float (*)(float);
    using D = double (*)(double);
    using F2 = float (*)(float, float);
    using D2 = double (*)(double, double);
#define DYNO_ONE(name)                                                                                                                     \
    {#name, reinterpret_cast<void*>(static_cast<D>(::name))}, { #name "f", reinterpret_cast<void*>(static_cast<F>(::name##f)) }
#define DYNO_TWO(name)                                                                                                                     \
    {#name, reinterpret_cast<void*>(static_cast<D2>(::name))}, { #name "f", reinterpret_cast<void*>(static_cast<F2>(::name##f)) }
    static const std::map<std::string, void*> table = {
        DYNO_ONE(exp),
        DYNO_ONE(exp2),
        DYNO_ONE(expm1),
        DYNO_ONE(log),
        DYNO_ONE(log2),
        DYNO_ONE(log10),
        DYNO_ONE(log1p),
        DYNO_ONE(sin),
        DYNO_ONE(cos),
        DYNO_ONE(tan),
        DYNO_ONE(atan),
        DYNO_ONE(asin),
        DYNO_ONE(acos),
        DYNO_ONE(sinh),
        DYNO_ONE(cosh),
        DYNO_ONE(tanh),
        DYNO_ONE(erf),
        DYNO_TWO(pow),
        DYNO_TWO(atan2),
        DYNO_TWO(hypot),
        DYNO_TWO(fmod),
        DYNO_ONE(floor),
        DYNO_ONE(ceil),
        DYNO_ONE(trunc),
        DYNO_ONE(roundeven),
        DYNO_ONE(rint),
        {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(::fma))},
        {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(::fmaf))},
        {"dyno_row_moments_f32", reinterpret_cast<void*>(static_cast<Moments<float>>(row_moments))},
        {"dyno_row_moments_f64", reinterpret_cast<void*>(static_cast<Moments<double>>(row_moments))},
        {"memcpy", reinterpret_cast<void*>(static_cast<void* (*)(void*, const void*, size_t)>(::memcpy))},
        {"memset", reinterpret_cast<void*>(static_cast<void* (*)(void*, int, size_t)>(::memset))},
    };
#undef DYNO_ONE
#undef DYNO_TWO
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

constexpr size_t stub_bytes = 16;

/// jmp [rip + 2]; the address follows, aligned.
void write_stub(uint8_t* at, void* target) {
    const uint8_t code[8] = {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0x90, 0x90};
    std::memcpy(at, code, sizeof code);
    std::memcpy(at + 8, &target, sizeof target);
}

class Loader {
  public:
    explicit Loader(const std::vector<uint8_t>& object) : object_(object), base_(object.data()) {}

    Result<CodeMemory> run() {
        if (object_.size() < sizeof(Elf64_Ehdr) || std::memcmp(base_, ELFMAG, SELFMAG) != 0)
            return Refusal{"the code is not an ELF object"};
        header_ = reinterpret_cast<const Elf64_Ehdr*>(base_);
        if (header_->e_type != ET_REL || header_->e_machine != EM_X86_64) return Refusal{"the object is not relocatable x86-64 code"};
        if (header_->e_shoff + uint64_t{header_->e_shnum} * sizeof(Elf64_Shdr) > object_.size()) return Refusal{"the object is cut short"};
        sections_ = reinterpret_cast<const Elf64_Shdr*>(base_ + header_->e_shoff);
        if (std::string reason = place(); !reason.empty()) return Refusal{reason};
        if (std::string reason = relocate(); !reason.empty()) return Refusal{reason};
        publish();
        if (mprotect(memory_.address, memory_.size, PROT_READ | PROT_EXEC) != 0) return Refusal{"memory cannot be made executable"};
        return std::move(memory_);
    }

  private:
    std::string place() {
        offsets_.assign(header_->e_shnum, SIZE_MAX);
        size_t size = 0, externals = 0;
        for (size_t k = 0; k < header_->e_shnum; k++) {
            const Elf64_Shdr& s = sections_[k];
            if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > object_.size()) return "the object is cut short";
            if (s.sh_type == SHT_SYMTAB) symbols_ = &s, externals = s.sh_size / sizeof(Elf64_Sym);
            if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0) continue;
            const size_t align = std::max<size_t>(1, s.sh_addralign);
            size = (size + align - 1) / align * align;
            offsets_[k] = size;
            size += s.sh_size;
        }
        if (!symbols_) return "the object has no symbols";
        stubs_ = (size + 15) / 16 * 16;
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        memory_.size = (stubs_ + externals * stub_bytes + page - 1) / page * page;
        void* at = mmap(nullptr, memory_.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return "no memory for code";
        memory_.address = at;
        for (size_t k = 0; k < header_->e_shnum; k++)
            if (offsets_[k] != SIZE_MAX && sections_[k].sh_type != SHT_NOBITS)
                std::memcpy(start() + offsets_[k], base_ + sections_[k].sh_offset, sections_[k].sh_size);
        return {};
    }

    uint8_t* start() { return static_cast<uint8_t*>(memory_.address); }
    const Elf64_Sym& symbol(size_t k) const { return reinterpret_cast<const Elf64_Sym*>(base_ + symbols_->sh_offset)[k]; }
    std::string name_of(const Elf64_Sym& s) const {
        return reinterpret_cast<const char*>(base_ + sections_[symbols_->sh_link].sh_offset + s.st_name);
    }

    /// The symbol's address; of an external function its stub's.
    Result<uint8_t*> address_of(size_t k) {
        const Elf64_Sym& s = symbol(k);
        if (s.st_shndx < header_->e_shnum && s.st_shndx != SHN_UNDEF && offsets_[s.st_shndx] != SIZE_MAX)
            return start() + offsets_[s.st_shndx] + s.st_value;
        void* function = c_function(name_of(s));
        if (!function) return Refusal{"generated code calls " + name_of(s) + ", which is not provided"};
        uint8_t* stub = start() + stubs_ + k * stub_bytes;
        write_stub(stub, function);
        return stub;
    }

    std::string relocate() {
        for (size_t k = 0; k < header_->e_shnum; k++) {
            const Elf64_Shdr& s = sections_[k];
            if (s.sh_type != SHT_RELA || s.sh_info >= header_->e_shnum || offsets_[s.sh_info] == SIZE_MAX) continue;
            const auto* entries = reinterpret_cast<const Elf64_Rela*>(base_ + s.sh_offset);
            for (size_t j = 0; j < s.sh_size / sizeof(Elf64_Rela); j++)
                if (std::string reason = apply(entries[j], start() + offsets_[s.sh_info]); !reason.empty()) return reason;
        }
        return {};
    }

    std::string apply(const Elf64_Rela& r, uint8_t* section) {
        uint8_t* at = section + r.r_offset;
        auto target = address_of(ELF64_R_SYM(r.r_info));
        if (!target) return target.reason();
        const auto value = reinterpret_cast<int64_t>(*target) + r.r_addend;
        const auto write32 = [&](int64_t v) {
            const auto narrow = static_cast<int32_t>(v);
            std::memcpy(at, &narrow, 4);
        };
        switch (ELF64_R_TYPE(r.r_info)) {
        case R_X86_64_64:
            std::memcpy(at, &value, 8);
            return {};
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
            write32(value - reinterpret_cast<int64_t>(at));
            return {};
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX:
            write32(value + 8 - reinterpret_cast<int64_t>(at));
            return {}; // the stub's address word
        default:
            return "unknown relocation " + std::to_string(ELF64_R_TYPE(r.r_info));
        }
    }

    void publish() {
        for (size_t k = 1; k < symbols_->sh_size / sizeof(Elf64_Sym); k++) {
            const Elf64_Sym& s = symbol(k);
            if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx < header_->e_shnum && offsets_[s.st_shndx] != SIZE_MAX)
                memory_.symbols[name_of(s)] = start() + offsets_[s.st_shndx] + s.st_value;
        }
    }

    const std::vector<uint8_t>& object_;
    const uint8_t* base_;
    const Elf64_Ehdr* header_ = nullptr;
    const Elf64_Shdr* sections_ = nullptr;
    const Elf64_Shdr* symbols_ = nullptr;
    std::vector<size_t> offsets_;
    size_t stubs_ = 0;
    CodeMemory memory_;
};

} // namespace

Result<CodeMemory> load_object(const std::vector<uint8_t>& object) { return Loader(object).run(); }

} // namespace dyno::runtime
