//! The macros of `cuda_std`, which re-exports them: see its documentation.

use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, ItemFn, ReturnType, Token, Type, parse_macro_input};

/// Makes an `unsafe fn` an entry point of the compiled PTX, under its own name.
///
/// `max_threads` (the most threads a block may have; default: no directive) and `min_blocks` (blocks that should fit on a multiprocessor at once, which
/// limits registers; needs `max_threads`) are constant expressions: `#[kernel(max_threads = 4 * 32, min_blocks = 3)]`.
/// On a target that is not a GPU the function stays an ordinary one.
#[proc_macro_attribute]
pub fn kernel(bounds: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(bounds as Bounds);
    let function = parse_macro_input!(item as ItemFn);
    expand_kernel(bounds, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A static array in shared memory: `shared_array![T; N]` yields a `*mut T` to `N` uninitialised values, the same in all threads of a block.
///
/// Each place in the source where it stands has an array of its own. `T` and `N` must not depend on generic parameters
/// (use dynamic shared memory there). Alignment is at least 16, so that it can be accessed 16 bytes at a time.
#[proc_macro]
pub fn shared_array(input: TokenStream) -> TokenStream {
    let SharedArray { element, length } = parse_macro_input!(input as SharedArray);
    // The name must differ at each place, and be the same in each build: a count in order of expansion, which is the order of the source.
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let place = PLACES.fetch_add(1, Ordering::Relaxed);
    let krate = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    let symbol = format!("__cuda_std_shared_{krate}_{place}");
    quote! {{
        const BYTES: usize = ::core::mem::size_of::<#element>() * (#length);
        const ALIGN: usize = if ::core::mem::align_of::<#element>() > 16 { ::core::mem::align_of::<#element>() } else { 16 };
        #[cfg(target_arch = "nvptx64")]
        {
            unsafe extern "C" {
                #[link_name = #symbol]
                safe fn shared_array(bytes: u64, align: u64) -> *mut u8;
            }
            shared_array(BYTES as u64, ALIGN as u64) as *mut #element
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let _: (usize, usize) = (BYTES, ALIGN);
            ::cuda_std::shared::no_array::<#element>()
        }
    }}
    .into()
}

/// The arguments of `#[kernel]`.
#[derive(Default)]
struct Bounds {
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
}

impl Parse for Bounds {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut bounds = Bounds::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let value: Expr = input.parse()?;
            let slot = match name.to_string().as_str() {
                "max_threads" => &mut bounds.max_threads,
                "min_blocks" => &mut bounds.min_blocks,
                _ => {
                    return Err(syn::Error::new(name.span(), "expected `max_threads` or `min_blocks`"));
                }
            };
            if slot.replace(value).is_some() {
                return Err(syn::Error::new(name.span(), format!("`{name}` is given twice")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let (Some(min_blocks), None) = (&bounds.min_blocks, &bounds.max_threads) {
            return Err(syn::Error::new_spanned(min_blocks, "`min_blocks` needs `max_threads`: the compiler ignores it alone"));
        }
        Ok(bounds)
    }
}

/// The argument of `shared_array!`: `T; N`.
struct SharedArray {
    element: Type,
    length: Expr,
}

impl Parse for SharedArray {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let element = input.parse()?;
        input.parse::<Token![;]>()?;
        let length = input.parse()?;
        if !input.is_empty() {
            return Err(input.error("expected `shared_array![T; N]`"));
        }
        Ok(SharedArray { element, length })
    }
}

fn expand_kernel(bounds: Bounds, function: ItemFn) -> syn::Result<Tokens> {
    let signature = &function.sig;
    if signature.unsafety.is_none() {
        return Err(syn::Error::new_spanned(signature.fn_token, "a kernel is an `unsafe fn`: the launch cannot check its arguments"));
    }
    if let Some(abi) = &signature.abi {
        return Err(syn::Error::new_spanned(abi, "a kernel gets its calling convention from `#[kernel]`"));
    }
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(&signature.generics, "a kernel cannot be generic: its name is that of its PTX entry"));
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        return Err(syn::Error::new_spanned(ty, "a kernel returns nothing"));
    }
    let name = &signature.ident;
    let mut on_device = function.clone();
    on_device.sig.abi = Some(syn::parse_quote!(extern "ptx-kernel"));
    let mark = bounds.max_threads.map(|max_threads| {
        let mark = format_ident!("__cuda_std_bounds_{name}");
        let min_blocks = bounds.min_blocks.map_or_else(|| quote!(0), |blocks| quote!(#blocks));
        quote! {
            #[cfg(target_arch = "nvptx64")]
            #[doc(hidden)]
            #[allow(non_upper_case_globals)]
            #[unsafe(no_mangle)]
            pub static #mark: [u32; 2] = [#max_threads, #min_blocks];
        }
    });
    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #on_device
        #[cfg(not(target_arch = "nvptx64"))]
        #function
        #mark
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(bounds: Tokens, function: Tokens) -> Result<String, String> {
        let bounds = syn::parse2(bounds).map_err(|e| e.to_string())?;
        let function = syn::parse2(function).map_err(|e| e.to_string())?;
        expand_kernel(bounds, function).map(|t| t.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_kernel_gets_its_convention_its_name_and_its_bounds() {
        let code = expand(
            quote!(max_threads = 4 * 32, min_blocks = 3),
            quote!(
                pub unsafe fn scale(x: *mut f32) {}
            ),
        )
        .unwrap();
        assert!(code.contains("extern \"ptx-kernel\" fn scale"), "{code}");
        assert!(code.contains("unsafe (no_mangle)"), "{code}");
        assert!(code.contains("static __cuda_std_bounds_scale : [u32 ; 2] = [4 * 32 , 3]"), "{code}");
    }

    #[test]
    fn a_kernel_without_bounds_leaves_no_mark() {
        assert!(
            !expand(
                quote!(),
                quote!(
                    pub unsafe fn scale() {}
                )
            )
            .unwrap()
            .contains("bounds")
        );
    }

    #[test]
    fn what_cannot_be_a_kernel_is_refused() {
        for (bounds, function, why) in [
            (
                quote!(),
                quote!(
                    pub fn k() {}
                ),
                "unsafe fn",
            ),
            (
                quote!(),
                quote!(
                    pub unsafe extern "C" fn k() {}
                ),
                "calling convention",
            ),
            (
                quote!(),
                quote!(
                    pub unsafe fn k<T>() {}
                ),
                "generic",
            ),
            (
                quote!(),
                quote!(
                    pub unsafe fn k() -> u32 {
                        0
                    }
                ),
                "returns nothing",
            ),
            (
                quote!(min_blocks = 2),
                quote!(
                    pub unsafe fn k() {}
                ),
                "needs `max_threads`",
            ),
            (
                quote!(threads = 2),
                quote!(
                    pub unsafe fn k() {}
                ),
                "expected `max_threads`",
            ),
            (
                quote!(max_threads = 2, max_threads = 3),
                quote!(
                    pub unsafe fn k() {}
                ),
                "twice",
            ),
        ] {
            let error = expand(bounds, function).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
