//! cust in a process without a CUDA driver: an error, never a failure to start or a panic.

#[test]
fn cust_reports_that_there_is_no_device() {
    if cuda_loader::driver_available().is_ok() {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    let error = cust::quick_init().expect_err("there is no driver");
    assert_eq!(error, cust::error::CudaError::NoDevice);
    assert!(error.to_string().contains("driver was not found"), "{error}");
    assert_eq!(cust::device::Device::num_devices().err(), Some(cust::error::CudaError::NoDevice));
}

#[test]
fn what_cust_lacks_reports_it_too() {
    if cuda_loader::driver_available().is_ok() {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    assert_eq!(cuda_loader::memory_info(), Err(cuda_loader::DriverError(100)));
}

#[test]
fn the_reason_is_one_that_people_understand() {
    if let Err(error) = cuda_loader::driver_available() {
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
    }
}
