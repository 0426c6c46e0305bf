//! The systems that a release is built for.

/// A system that a release is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Platform {
    LinuxAmd64,
    LinuxArm64,
    WindowsAmd64,
    MacosArm64,
    MacosAmd64,
}

impl Platform {
    /// This machine, if it runs Linux.
    pub(super) const HERE: Self = if cfg!(target_arch = "aarch64") { Self::LinuxArm64 } else { Self::LinuxAmd64 };

    /// Those that can be built on Linux. The others need a Mac.
    pub(crate) const ON_LINUX: [Self; 3] = [Self::LinuxAmd64, Self::LinuxArm64, Self::WindowsAmd64];

    /// The name in files of the release.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::LinuxAmd64 => "linux-amd64",
            Self::LinuxArm64 => "linux-arm64",
            Self::WindowsAmd64 => "windows-amd64",
            Self::MacosArm64 => "macos-arm64",
            Self::MacosAmd64 => "macos-amd64",
        }
    }

    /// The target triple of Rust. Programs for Linux are static.
    pub(super) const fn triple(self) -> &'static str {
        match self {
            Self::LinuxAmd64 => "x86_64-unknown-linux-musl",
            Self::LinuxArm64 => "aarch64-unknown-linux-musl",
            Self::WindowsAmd64 => "x86_64-pc-windows-gnu",
            Self::MacosArm64 => "aarch64-apple-darwin",
            Self::MacosAmd64 => "x86_64-apple-darwin",
        }
    }

    pub(super) const fn is_linux(self) -> bool {
        matches!(self, Self::LinuxAmd64 | Self::LinuxArm64)
    }

    /// The packages of the workspace whose programs are released, and the files that they are built to.
    pub(super) const fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::LinuxAmd64 | Self::LinuxArm64 => &[("service-server", "serviced"), ("service-cli", "service")],
            Self::WindowsAmd64 => &[("service-cli", "service.exe")],
            Self::MacosArm64 | Self::MacosAmd64 => &[("service-cli", "service")],
        }
    }

    /// The architecture, as packages for Debian and images name it.
    pub(super) const fn architecture(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::WindowsAmd64 | Self::MacosAmd64 => "amd64",
            Self::LinuxArm64 | Self::MacosArm64 => "arm64",
        }
    }
}
