// Graph pictures by libgvc, found with dlopen.
// Input: DOT text. Output: SVG text. Only two plugins are used, layered layout and SVG, handed to the library as its built-in list: so no
// configuration file is read, no font library is started, and the same text gives the same picture everywhere. It must not link Graphviz.

#include "compiler/report/graph_picture.h"

#include <array>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>

namespace dyno::report {
namespace {

/// Graphviz's own layout of a preloaded symbol (libltdl's `lt_symlist_t`), which `gvContextPlugins` reads up to a null name.
struct PreloadedSymbol {
    const char* name;
    void* address;
};

/// Graphviz's entry points, null while absent.
struct Library {
    void* (*context)(const PreloadedSymbol*, int demand_loading) = nullptr;
    int (*free_context)(void*) = nullptr;
    void* (*read)(const char*) = nullptr;
    int (*layout)(void*, void*, const char*) = nullptr;
    int (*render)(void*, void*, const char*, char**, unsigned*) = nullptr;
    void (*free_render)(char*) = nullptr;
    int (*free_layout)(void*, void*) = nullptr;
    int (*close)(void*) = nullptr;
    int (*set_error_printer)(int (*)(char*)) = nullptr;
    std::array<PreloadedSymbol, 3> plugins{};

    [[nodiscard]] bool complete() const {
        return context && free_context && read && layout && render && free_render && free_layout && close && plugins[0].address &&
               plugins[1].address;
    }
};

/// The folder of the running program's environment: `<prefix>/bin/python` gives `<prefix>/lib/`.
std::string library_folder() {
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    const std::string program(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
    const size_t name = program.rfind('/');
    const size_t folder = name == std::string::npos || name == 0 ? std::string::npos : program.rfind('/', name - 1);
    return folder == std::string::npos ? std::string() : program.substr(0, folder) + "/lib/";
}

/// Opens the first of `stem`.6, .7 and the plain name: the environment's own first, then the system's.
void* open_any(const std::string& stem, const std::string& folder) {
    for (const std::string& where : {folder, library_folder(), std::string()}) {
        for (const char* version : {".so.6", ".so.7", ".so"}) {
            if (void* handle = dlopen((where + stem + version).c_str(), RTLD_NOW | RTLD_LOCAL)) {
                return handle;
            }
        }
    }
    return nullptr;
}

/// The folder that holds a symbol's library, where Graphviz keeps `graphviz/` with its plugins.
std::string folder_of(void* symbol) {
    Dl_info info{};
    if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

template <typename Function>
void bind(Function& function, void* handle, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
}

int say_nothing(char*) { return 0; }

Library load() {
    Library library;
    void* const gvc = open_any("libgvc", {});
    if (gvc == nullptr) {
        return library;
    }
    bind(library.context, gvc, "gvContextPlugins");
    bind(library.free_context, gvc, "gvFreeContext");
    bind(library.layout, gvc, "gvLayout");
    bind(library.render, gvc, "gvRenderData");
    bind(library.free_render, gvc, "gvFreeRenderData");
    bind(library.free_layout, gvc, "gvFreeLayout");
    // libgvc depends on libcgraph, so these are found through it.
    bind(library.read, gvc, "agmemread");
    bind(library.close, gvc, "agclose");
    bind(library.set_error_printer, gvc, "agseterrf");
    const std::string plugins = folder_of(reinterpret_cast<void*>(library.layout)) + "graphviz/";
    if (void* layout = open_any("libgvplugin_dot_layout", plugins)) {
        library.plugins[0] = {"gvplugin_dot_layout_LTX_library", dlsym(layout, "gvplugin_dot_layout_LTX_library")};
    }
    if (void* core = open_any("libgvplugin_core", plugins)) {
        library.plugins[1] = {"gvplugin_core_LTX_library", dlsym(core, "gvplugin_core_LTX_library")};
    }
    return library;
}

/// Draws with a complete library; the caller holds the lock, since Graphviz keeps global state.
std::optional<std::string> draw_with(const Library& library, const std::string& dot) {
    if (library.set_error_printer != nullptr) {
        library.set_error_printer(say_nothing);
    }
    void* const context = library.context(library.plugins.data(), 0);
    if (context == nullptr) {
        return std::nullopt;
    }
    std::optional<std::string> picture;
    if (void* const graph = library.read(dot.c_str())) {
        if (library.layout(context, graph, "dot") == 0) {
            char* data = nullptr;
            unsigned length = 0;
            if (library.render(context, graph, "svg", &data, &length) == 0 && data != nullptr) {
                picture.emplace(data, length);
                library.free_render(data);
            }
            library.free_layout(context, graph);
        }
        library.close(graph);
    }
    library.free_context(context);
    return picture;
}

} // namespace

std::optional<std::string> draw(const std::string& dot) {
    static std::mutex turn;
    const std::lock_guard lock(turn);
    static const Library library = load();
    if (!library.complete()) {
        return std::nullopt;
    }
    std::optional<std::string> picture = draw_with(library, dot);
    if (!picture) {
        return std::nullopt;
    }
    // The prolog names a document type on the network; an embedded picture starts at its element.
    const size_t start = picture->find("<svg");
    if (start == std::string::npos) {
        return std::nullopt;
    }
    return picture->substr(start);
}

} // namespace dyno::report
