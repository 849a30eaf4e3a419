//! A terminal that interprets its input, resizes, pastes and suspends: tmux, alone or with GNU screen or Zellij in it.

use crate::wait::wait_until;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the session of GNU screen or Zellij.
const SESSION: &str = "pinion";

/// A command in a separate tmux.
pub struct Tmux {
    directory: tempfile::TempDir,
}

impl Tmux {
    /// Starts a command on a terminal of this many columns and rows; `None` without tmux.
    ///
    /// # Panics
    /// There is no tmux, and `PINION_TMUX_REQUIRED` is set.
    pub fn start(command: &Command, size: (u16, u16)) -> Option<Self> {
        let tmux = Self { directory: tempfile::tempdir().unwrap() };
        tmux.begin(command, size)
    }

    /// Starts a command in GNU screen on a terminal of this many columns and rows; `None` without screen or tmux.
    ///
    /// # Panics
    /// One of them is missing, and `PINION_SCREEN_REQUIRED` or `PINION_TMUX_REQUIRED` is set.
    pub fn start_in_screen(command: &Command, size: (u16, u16)) -> Option<Self> {
        if !is_there("screen", "-v", "PINION_SCREEN_REQUIRED") {
            return None;
        }
        let tmux = Self { directory: tempfile::tempdir().unwrap() };
        let config = tmux.directory.path().join("screenrc");
        // Its own key must be one that the tests do not press.
        std::fs::write(&config, "startup_message off\naltscreen on\ndefscrollback 5000\nescape ^]]\n").unwrap();
        let mut screen = Command::new("env");
        screen.args(["-u", "TMUX", "-u", "STY", "LANG=C.UTF-8", "screen", "-S", SESSION, "-U", "-c"]).arg(config);
        screen.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().unwrap());
        screen.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        screen.env("SCREENDIR", tmux.screen_directory());
        tmux.begin(&screen, size)
    }

    /// Starts a command in Zellij on a terminal of this many columns and rows; `None` without Zellij or tmux.
    ///
    /// # Panics
    /// One of them is missing, and `PINION_ZELLIJ_REQUIRED` or `PINION_TMUX_REQUIRED` is set.
    pub fn start_in_zellij(command: &Command, size: (u16, u16)) -> Option<Self> {
        if !is_there("zellij", "--version", "PINION_ZELLIJ_REQUIRED") {
            return None;
        }
        let tmux = Self { directory: tempfile::tempdir().unwrap() };
        let directory = tmux.directory.path();
        let quoted = |text: &OsStr| format!("{:?}", text.to_str().unwrap());
        let program = quoted(command.get_program());
        let arguments: Vec<String> = command.get_args().map(quoted).collect();
        let cwd = quoted(command.get_current_dir().unwrap().as_os_str());
        let pane = format!("pane command={program} borderless=true {{\nargs {}\ncwd {cwd}\n}}", arguments.join(" "));
        std::fs::write(directory.join("only.kdl"), format!("layout {{\n{pane}\n}}\n")).unwrap();
        // Its own keys and bars would replace the command's.
        let config = format!(
            "keybinds clear-defaults=true {{}}\npane_frames false\nmouse_mode false\nsession_serialization false\n\
             show_startup_tips false\nshow_release_notes false\nlayout_dir {}\ndefault_layout \"only\"\n",
            quoted(directory.as_os_str())
        );
        std::fs::write(directory.join("config.kdl"), config).unwrap();
        let mut zellij = Command::new("env");
        zellij.args(["-u", "TMUX", "-u", "ZELLIJ", "LANG=C.UTF-8", "zellij", "--session", SESSION, "--config"]);
        zellij.arg(directory.join("config.kdl")).current_dir(command.get_current_dir().unwrap());
        zellij.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        zellij.env("ZELLIJ_SOCKET_DIR", directory.join("zellij"));
        tmux.begin(&zellij, size)
    }

    fn begin(self, command: &Command, (columns, rows): (u16, u16)) -> Option<Self> {
        if !is_there("tmux", "-V", "PINION_TMUX_REQUIRED") {
            return None;
        }
        let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        let (columns, rows) = (columns.to_string(), rows.to_string());
        // The screen stays when the command ends.
        let options = ["-f", "/dev/null", "start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"];
        let mut started = self.tmux(&options);
        started.args(["new-session", "-d", "-x", &columns, "-y", &rows, "-c"]);
        started.arg(command.get_current_dir().unwrap()).args(["env", "-u", "XTERM_VERSION"]).args(variables);
        assert!(started.arg(command.get_program()).args(command.get_args()).status().unwrap().success());
        Some(self)
    }

    /// Returns the directory of the sockets of GNU screen, which only the user may enter.
    fn screen_directory(&self) -> PathBuf {
        let directory = self.directory.path().join("screen");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map(|()| directory).unwrap()
    }

    fn screen_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("screen");
        command.env("SCREENDIR", self.screen_directory()).env_remove("STY").args(["-S", SESSION, "-X"]).args(arguments);
        command
    }

    /// Returns the rows of GNU screen's scrollback and of the screen. Characters beyond ASCII are not kept.
    pub fn scrollback_of_screen(&self) -> Vec<String> {
        let file = self.directory.path().join("hardcopy");
        assert!(self.screen_command(&["hardcopy", "-h", file.to_str().unwrap()]).status().unwrap().success());
        wait_until("screen has written its scrollback", || file.metadata().is_ok_and(|found| found.len() > 0));
        let text = std::fs::read(file).unwrap();
        String::from_utf8_lossy(&text).lines().map(|row| row.trim_end().to_owned()).collect()
    }

    fn zellij_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("zellij");
        command.env("ZELLIJ_SOCKET_DIR", self.directory.path().join("zellij")).env_remove("ZELLIJ").args(arguments);
        command
    }

    /// Returns the rows of Zellij's scrollback and of its screen, with wrapped rows joined.
    pub fn scrollback_of_zellij(&self) -> Vec<String> {
        let dump = ["--session", SESSION, "action", "dump-screen", "--full"];
        let text = RefCell::new(String::new());
        // It sometimes prints nothing.
        wait_until("Zellij has printed its scrollback", || {
            let output = self.zellij_command(&dump).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            *text.borrow_mut() = String::from_utf8(output.stdout).unwrap();
            !text.borrow().is_empty()
        });
        text.into_inner().lines().map(|row| row.trim_end().to_owned()).collect()
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.directory.path().join("socket")).arg("-u").args(arguments);
        command.env_remove("TMUX");
        command
    }

    fn run(&self, arguments: &[&str]) {
        let output = self.tmux(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, (columns, rows): (u16, u16)) {
        self.run(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Types a text.
    pub fn types(&self, text: &str) {
        self.run(&["send-keys", "-l", text]);
    }

    /// Presses keys by their names in tmux, such as `C-a` or `PPage`.
    pub fn press(&self, keys: &str) {
        self.run(&[&["send-keys"], keys.split(' ').collect::<Vec<_>>().as_slice()].concat());
    }

    /// Pastes the content of a file as one paste.
    pub fn paste(&self, file: &Path) {
        self.run(&["load-buffer", file.to_str().unwrap()]);
        self.run(&["paste-buffer", "-p"]);
    }

    /// Ends the terminal, as a lost connection does.
    pub fn lose(&self) {
        self.run(&["kill-server"]);
    }

    /// Returns the rows of the screen.
    pub fn screen(&self) -> Vec<String> {
        self.capture(&[])
    }

    /// Returns the rows of the scrollback and of the screen, with wrapped rows joined.
    pub fn scrollback(&self) -> Vec<String> {
        self.capture(&["-J", "-S", "-"])
    }

    fn capture(&self, options: &[&str]) -> Vec<String> {
        let output = self.tmux(&[&["capture-pane", "-p"], options].concat()).output().unwrap().stdout;
        String::from_utf8(output).unwrap().lines().map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until the rows of the screen are as expected.
    ///
    /// # Panics
    /// They are not within a minute.
    pub fn wait_for(&self, what: &str, is_expected: impl Fn(&[String]) -> bool) {
        let last = RefCell::new(Vec::new());
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || {
                *last.borrow_mut() = self.screen();
                is_expected(&last.borrow())
            });
        }));
        assert!(found.is_ok(), "{what} does not hold for:\n{}", last.borrow().join("\n"));
    }

    /// Waits until the screen contains a text.
    pub fn wait_for_text(&self, text: &str) {
        self.wait_for(&format!("`{text}` is on the screen"), |rows| rows.iter().any(|row| row.contains(text)));
    }
}

/// Returns whether a program is installed.
fn is_there(program: &str, version: &str, required: &str) -> bool {
    let is_there = Command::new(program).arg(version).output().is_ok();
    assert!(is_there || std::env::var_os(required).is_none(), "{program} is missing");
    is_there
}

impl Drop for Tmux {
    fn drop(&mut self) {
        if self.directory.path().join("screen").exists() {
            let _ = self.screen_command(&["quit"]).output();
        }
        if self.directory.path().join("zellij").exists() {
            let _ = self.zellij_command(&["delete-session", "--force", SESSION]).output();
        }
        // The test may have ended the server.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
