//! A linker whose functions record their calls.
//!
//! The generated bindings link their interfaces with it, because it has the names and signatures of wasmtime's linker. It adds
//! one bound to each function: arguments and results must be values that a journal can contain.

use crate::recorder::Recorder;
use crate::value::EncodeValue;
use wasmtime::StoreContextMut;
use wasmtime::component::{Component, ComponentNamedList, InstancePre, Lift, Lower, ResourceType};

/// Finds the recorder of a store; `None` where calls are not recorded.
type RecorderOf<T> = fn(&T) -> Option<Recorder>;

/// A linker whose functions record their calls.
pub struct Linker<T: 'static> {
    inner: wasmtime::component::Linker<T>,
    recorder: RecorderOf<T>,
}

impl<T: 'static> Linker<T> {
    /// Wraps a linker.
    pub fn new(inner: wasmtime::component::Linker<T>, recorder: RecorderOf<T>) -> Self {
        Self { inner, recorder }
    }

    /// The linker of wasmtime, for interfaces that record their calls elsewhere.
    pub fn unrecorded(&mut self) -> &mut wasmtime::component::Linker<T> {
        &mut self.inner
    }

    /// Unwraps the linker.
    pub fn into_inner(self) -> wasmtime::component::Linker<T> {
        self.inner
    }

    /// Begins to define an interface.
    ///
    /// # Errors
    /// The linker refuses the name.
    pub fn instance(&mut self, name: &str) -> wasmtime::Result<LinkerInstance<'_, T>> {
        let interface = unversioned(name).to_owned();
        Ok(LinkerInstance { inner: self.inner.instance(name)?, interface, recorder: self.recorder })
    }

    /// Links a component.
    ///
    /// # Errors
    /// The component imports something that is not defined.
    pub fn instantiate_pre(&self, component: &Component) -> wasmtime::Result<InstancePre<T>> {
        self.inner.instantiate_pre(component)
    }
}

/// Returns the name of an interface without its version.
pub fn unversioned(interface: &str) -> &str {
    interface.split_once('@').map_or(interface, |(name, _)| name)
}

/// An interface whose functions are being defined.
pub struct LinkerInstance<'a, T: 'static> {
    inner: wasmtime::component::LinkerInstance<'a, T>,
    interface: String,
    recorder: RecorderOf<T>,
}

impl<T: 'static> LinkerInstance<'_, T> {
    /// Defines a function.
    ///
    /// # Errors
    /// The name is taken.
    pub fn func_wrap<F, P, R>(&mut self, name: &str, function: F) -> wasmtime::Result<()>
    where
        F: Fn(StoreContextMut<'_, T>, P) -> wasmtime::Result<R> + Send + Sync + 'static,
        P: ComponentNamedList + Lift + EncodeValue + 'static,
        R: ComponentNamedList + Lower + EncodeValue + 'static,
    {
        let (import, recorder) = (format!("{}#{name}", self.interface), self.recorder);
        self.inner.func_wrap(name, move |store: StoreContextMut<'_, T>, arguments: P| {
            let recorder = recorder(store.data());
            if let Some(recorder) = &recorder {
                recorder.begin_import(&import, &arguments);
            }
            let returned = function(store, arguments);
            if let Some(recorder) = &recorder {
                recorder.end_import(&returned);
            }
            returned
        })
    }

    /// Defines a function that waits.
    ///
    /// # Errors
    /// The name is taken.
    pub fn func_wrap_async<P, R, F>(&mut self, name: &str, function: F) -> wasmtime::Result<()>
    where
        F: Fn(StoreContextMut<'_, T>, P) -> Box<dyn Future<Output = wasmtime::Result<R>> + Send + '_>
            + Send
            + Sync
            + 'static,
        P: ComponentNamedList + Lift + EncodeValue + 'static,
        R: ComponentNamedList + Lower + EncodeValue + 'static,
    {
        let (import, recorder) = (format!("{}#{name}", self.interface), self.recorder);
        self.inner.func_wrap_async(name, move |store: StoreContextMut<'_, T>, arguments: P| {
            let Some(recorder) = recorder(store.data()) else { return function(store, arguments) };
            recorder.begin_import(&import, &arguments);
            let running = Box::into_pin(function(store, arguments));
            Box::new(async move {
                let returned = running.await;
                recorder.end_import(&returned);
                returned
            })
        })
    }

    /// Defines a resource.
    pub fn resource<F>(&mut self, name: &str, resource: ResourceType, dropped: F) -> wasmtime::Result<()>
    where
        F: Fn(StoreContextMut<'_, T>, u32) -> wasmtime::Result<()> + Send + Sync + 'static,
    {
        self.inner.resource(name, resource, dropped)
    }

    /// Defines a resource whose destructor waits.
    ///
    /// # Errors
    /// The name is taken.
    pub fn resource_async<F>(&mut self, name: &str, resource: ResourceType, dropped: F) -> wasmtime::Result<()>
    where
        T: Send,
        F: Fn(StoreContextMut<'_, T>, u32) -> Box<dyn Future<Output = wasmtime::Result<()>> + Send + '_>
            + Send
            + Sync
            + 'static,
    {
        self.inner.resource_async(name, resource, dropped)
    }
}
