// xdyno: chooses the Python environment, starts the interpreter in it, and hands over to the package dyno.kernel. Input: argv. It links
// libpython only and has no C++ symbols that a library loaded later could take for its own. It must not parse the kernel's options.
#include <Python.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>

namespace {

const std::string built_for = std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);

bool readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
    char resolved[PATH_MAX];
    return realpath(path.c_str(), resolved) ? resolved : path;
}

/// The environment's python: --python, XDYNO_PYTHON, the environment the program lies in, VIRTUAL_ENV, the one it was built for.
std::string choose_python(int argc, char** argv, const std::string& program) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--python") == 0 && i + 1 < argc) return argv[i + 1];
        if (std::strncmp(argv[i], "--python=", 9) == 0) return argv[i] + 9;
    }
    if (const char* named = std::getenv("XDYNO_PYTHON"); named && *named) return named;
    const std::string folder = folder_of(program);
    if (readable(folder + "/python")) return folder + "/python";
    if (const char* active = std::getenv("VIRTUAL_ENV"); active && readable(std::string(active) + "/bin/python"))
        return std::string(active) + "/bin/python";
    return XDYNO_DEFAULT_PYTHON;
}

/// "3.12" of "3.12.1"; "" if it is no version.
std::string minor_version(const std::string& text) {
    const auto first = text.find('.');
    if (first == std::string::npos) return "";
    const auto second = text.find_first_not_of("0123456789", first + 1);
    return second == first + 1 ? "" : text.substr(0, second);
}

/// The version a python says it has without being run: by pyvenv.cfg, else by the name of its file. "" if it does not say.
std::string version_of(const std::string& python) {
    std::ifstream settings(folder_of(folder_of(python)) + "/pyvenv.cfg");
    for (std::string line; std::getline(settings, line);) {
        const auto equals = line.find('=');
        if (line.compare(0, 7, "version") != 0 || equals == std::string::npos) continue;
        const auto start = line.find_first_not_of(" \t", equals + 1);
        if (start != std::string::npos) return minor_version(line.substr(start));
    }
    const std::string file = real_path(python);
    const auto name = file.rfind("/python");
    return name == std::string::npos ? "" : minor_version(file.substr(name + 7));
}

int refuse(const std::string& sentence) {
    std::fprintf(stderr, "xdyno: %s\n", sentence.c_str());
    return 3;
}

/// The package beside the program. In a build tree it goes before everything, so that a tree is whole; an installation's folder goes
/// last, for a Python that does not look there by itself.
void find_package(const std::string& program) {
    const std::string root = folder_of(folder_of(program));
    PyObject* path = PySys_GetObject("path"); // borrowed
    const auto add = [path](const std::string& folder, bool first) {
        if (!path || !readable(folder + "/dyno/kernel/__init__.py")) return;
        PyObject* entry = PyUnicode_DecodeFSDefault(folder.c_str());
        if (entry && !PySequence_Contains(path, entry)) first ? PyList_Insert(path, 0, entry) : PyList_Append(path, entry);
        Py_XDECREF(entry);
    };
    add(root + "/python", true);
    add(root + "/lib/python" + built_for + "/site-packages", false);
}

int hand_over(const std::string& program, const std::string& python) {
    PyObject* package = PyImport_ImportModule("dyno.kernel");
    if (!package && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
        PyErr_Clear();
        return refuse("the package dyno.kernel is not installed in the environment of " + python + ".");
    }
    PyObject* status = package ? PyObject_CallMethod(package, "main", "Os", Py_None, program.c_str()) : nullptr;
    int code = 1;
    if (status)
        code = static_cast<int>(PyLong_AsLong(status));
    else
        PyErr_Print();
    Py_XDECREF(status);
    Py_XDECREF(package);
    return code;
}

} // namespace

int main(int argc, char** argv) {
    const std::string program = real_path("/proc/self/exe");
    const std::string python = choose_python(argc, argv, program);
    if (!readable(python)) return refuse("there is no Python at " + python + " (name one with --python).");
    const std::string version = version_of(python);
    if (!version.empty() && version != built_for)
        return refuse("this program was built for Python " + built_for + " and cannot run in " + python + ", which is Python " + version + ".");

    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    // A path with a slash becomes sys.executable, and pyvenv.cfg is found from it. No `home`, no `executable`: they would hide the venv.
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python.c_str());
    if (!PyStatus_Exception(status)) status = PyConfig_SetBytesArgv(&config, argc, argv);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);

    find_package(program);
    const int code = hand_over(program, python);
    const int finalized = Py_FinalizeEx();
    return code ? code : finalized < 0 ? 120 : 0;
}
