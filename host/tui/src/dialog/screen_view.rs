//! The contract of a view, and the views that are open.
//!
//! A view takes the place of the editor, or of the whole conversation, and gets the keys first. It has no access to
//! the app `A`: an input that changes more than the view itself returns a [`ViewEffect`], which runs when the view is
//! back in its place. [`OpenViews`] keeps at most one view in each [`ViewLayer`], and the app treats views only by
//! their layers.

use crate::keys::Action;
use crate::rows::Row;
use crate::theme::Theme;
use crossterm::event::KeyEvent;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// The effect of an input of a view on the rest of the UI.
pub(crate) type ViewEffect<A> = Box<dyn FnOnce(&mut A, Duration)>;
/// Rows of a view, and the place of the cursor among them.
pub(crate) type ViewRows = (Vec<Row>, Option<(usize, usize)>);

/// The place of a view on the screen and above other views, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ViewLayer {
    /// A line in place of the message, among the rows around it.
    Line,
    /// A page in place of the conversation, with rows of keys in place of the editor.
    Page,
    /// A list in place of the editor.
    List,
    /// A question of a plugin in place of the editor.
    Dialog,
    /// A question about a call, below the row of the work and the name of the agent that asks.
    Question,
}

/// The keys and the wheel that scroll the conversation while a view is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadingKeys {
    /// The view has all keys and the wheel.
    Nothing,
    /// Keys with a modifier, and the wheel.
    WithModifier,
    /// Keys with a modifier, those for a page, and the wheel.
    WithModifierAndPages,
}

/// The response of a view to an input.
pub(crate) enum ViewOutcome<A> {
    /// The input is not for this view.
    Passed,
    /// The view has taken the input.
    Taken,
    /// The view has taken the input, which changes the rest of the UI.
    Effect(ViewEffect<A>),
}

impl<A> ViewOutcome<A> {
    /// Creates an outcome with an effect.
    pub(crate) fn effect(effect: impl FnOnce(&mut A, Duration) + 'static) -> Self {
        Self::Effect(Box::new(effect))
    }
}

/// The space and the look of a view in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewFrame<'a> {
    pub(crate) columns: usize,
    /// Maximum number of rows.
    pub(crate) height: usize,
    pub(crate) theme: &'a Theme,
    pub(crate) now: Duration,
}

/// A view on the screen.
pub(crate) trait ScreenView<A>: Any + Debug + Send {
    /// Returns its place. Another view of the same layer replaces it.
    fn layer(&self) -> ViewLayer;

    /// Draws the rows in place of the editor.
    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows;

    /// Takes a key, and its action in the editor.
    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> ViewOutcome<A>;

    /// Takes pasted text.
    fn take_paste(&mut self, _text: &str, _now: Duration) -> ViewOutcome<A> {
        ViewOutcome::Passed
    }

    /// Takes the passage of time, which is due at [`Self::deadline`].
    fn take_tick(&mut self, _now: Duration) -> ViewOutcome<A> {
        ViewOutcome::Passed
    }

    /// Returns the time when [`Self::take_tick`] has something to do.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Returns whether keys have not counted yet, so that they are still meant for the previous screen.
    fn is_new(&self) -> bool {
        false
    }

    /// Returns the number of the host's question that it shows.
    fn question_id(&self) -> Option<u64> {
        None
    }

    /// Returns the notification for a user who looks elsewhere when it opens.
    fn announcement(&self) -> Option<&'static str> {
        None
    }

    /// Returns the keys that scroll the conversation meanwhile.
    fn reading_keys(&self) -> ReadingKeys {
        ReadingKeys::Nothing
    }

    /// Returns the text that is marked in the conversation.
    fn marked_text(&self) -> Option<&str> {
        None
    }

    /// Draws a page in place of the conversation.
    fn draw_page(&self, _app: &A, _columns: usize, _height: usize, _now: Duration) -> Option<Vec<Row>> {
        None
    }

    /// Returns the rows of the page that a question below it leaves on a screen of `height` rows.
    fn page_rows(&self, _app: &A, _height: usize) -> Option<usize> {
        None
    }
}

/// A view of any type.
pub(crate) type AnyView<A> = dyn ScreenView<A>;

/// The open views, at most one in each layer.
#[derive(Debug)]
pub(crate) struct OpenViews<A: 'static>(BTreeMap<ViewLayer, Box<AnyView<A>>>);

impl<A: 'static> Default for OpenViews<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<A: 'static> OpenViews<A> {
    /// Opens a view in place of another one in its layer.
    pub(crate) fn open(&mut self, view: impl ScreenView<A>) {
        self.0.insert(view.layer(), Box::new(view));
    }

    /// Closes the view in a layer.
    pub(crate) fn close(&mut self, layer: ViewLayer) {
        self.0.remove(&layer);
    }

    /// Closes all questions.
    pub(crate) fn close_questions(&mut self) {
        self.0.retain(|layer, _| *layer < ViewLayer::Dialog);
    }

    /// Closes the view of the host's question with this number.
    pub(crate) fn withdraw(&mut self, question: u64) {
        self.0.retain(|_, view| view.question_id() != Some(question));
    }

    /// Returns whether there is a view in a layer.
    pub(crate) fn has(&self, layer: ViewLayer) -> bool {
        self.0.contains_key(&layer)
    }

    /// Returns whether a question waits for the user.
    pub(crate) fn is_asking(&self) -> bool {
        self.top_layer() >= Some(ViewLayer::Dialog)
    }

    /// Returns whether a list or a question covers the editor.
    pub(crate) fn covers_editor(&self) -> bool {
        self.top_layer() >= Some(ViewLayer::List)
    }

    pub(crate) fn top_layer(&self) -> Option<ViewLayer> {
        self.0.last_key_value().map(|(layer, _)| *layer)
    }

    pub(crate) fn top_mut(&mut self) -> Option<&mut AnyView<A>> {
        self.iter_mut_from_top().next()
    }

    /// Returns the views, the one above all others first.
    pub(crate) fn iter_from_top(&self) -> impl Iterator<Item = &AnyView<A>> {
        self.0.values().rev().map(|view| &**view)
    }

    /// Returns the views, the one above all others first.
    pub(crate) fn iter_mut_from_top(&mut self) -> impl Iterator<Item = &mut AnyView<A>> {
        self.0.values_mut().rev().map(|view| &mut **view)
    }

    /// Returns the open view of a type.
    pub(crate) fn get<V: ScreenView<A>>(&self) -> Option<&V> {
        self.iter_from_top().find_map(|view| (view as &dyn Any).downcast_ref())
    }

    /// Returns the open view of a type.
    pub(crate) fn get_mut<V: ScreenView<A>>(&mut self) -> Option<&mut V> {
        self.iter_mut_from_top().find_map(|view| (view as &mut dyn Any).downcast_mut())
    }

    /// Closes the view of a type and returns it.
    pub(crate) fn take_view<V: ScreenView<A>>(&mut self) -> Option<V> {
        let layer = self.get::<V>()?.layer();
        let view: Box<dyn Any> = self.0.remove(&layer)?;
        view.downcast().ok().map(|view| *view)
    }

    /// Returns the time when a view is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.iter_from_top().filter_map(ScreenView::deadline).min()
    }

    /// Returns whether a key was typed for the editor before the view above all others was visible.
    pub(crate) fn is_typed_ahead(&self) -> bool {
        let mut views = self.iter_from_top();
        let takes_text = |view: &AnyView<A>| matches!(view.layer(), ViewLayer::Line | ViewLayer::List);
        views.next().is_some_and(ScreenView::is_new) && !views.any(takes_text)
    }

    /// Returns the keys that scroll the conversation.
    pub(crate) fn reading_keys(&self) -> ReadingKeys {
        self.iter_from_top().next().map_or(ReadingKeys::Nothing, ScreenView::reading_keys)
    }
}
